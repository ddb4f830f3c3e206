/* The frame of the page: navigation, notices, the token, and which panel is shown. */

import { fill, h, put } from "./core/dom.js";
import { feed } from "./core/feed.js";
import { problem } from "./core/parts.js";
import { session, setToken, token } from "./core/server.js";
import { applyTheme, themeSwitch } from "./core/theme.js";
import { askForToken } from "./core/token_dialog.js";
import { api } from "./panels/api.js";
import { epochs } from "./panels/epochs.js";
import { logs } from "./panels/logs.js";
import { overview } from "./panels/overview.js";
import { queues } from "./panels/queues.js";
import { sources } from "./panels/sources.js";
import { sql } from "./panels/sql.js";
import { state } from "./panels/state.js";
import { view } from "./panels/view.js";
import { views } from "./panels/views.js";

const PANELS = [
  ["", "Overview", overview],
  ["views", "Views", views],
  ["sources", "Sources", sources],
  ["epochs", "Epochs", epochs],
  ["state", "State", state],
  ["queues", "Queues", queues],
  ["sql", "SQL", sql],
  ["logs", "Logs", logs],
  ["api", "HTTP API", api],
];

const content = document.getElementById("content");
const notice = document.getElementById("notice");
const navigation = document.getElementById("navigation");
let shown = new AbortController();
let reached = true;

function parts() {
  return location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;  // a % that is no escape
    }
  });
}

/** Scroll the links so that one is in the middle. scrollIntoView would let the Tab key go on from there. */
function centre(current) {
  const [outer, inner] = [navigation.getBoundingClientRect(), current.getBoundingClientRect()];
  navigation.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
}

/** Show the panel that the address names. */
function route(event) {
  shown.abort();
  shown = new AbortController();
  const [name, ...rest] = parts();
  const found = PANELS.find(([path]) => path === name) ?? PANELS[0];
  const panel = name === "views" && rest[0] ? view : found[2];
  document.title = `${name === "views" && rest[0] ? rest[0] : found[1]} · Tidemill`;
  for (const link of navigation.querySelectorAll("a")) {
    if (link.dataset.panel === found[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  centre(navigation.querySelector("[aria-current]"));
  const room = fill(content, h("div", { class: "panel" })).firstChild;
  if (event) {
    content.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  panel(room, shown.signal, rest).catch((error) => {
    if (error.name !== "AbortError") room.append(problem(error));
  });
}

function notify() {
  const stopped = feed.health?.status === "stopped" && `Epochs have stopped; views are as of epoch ${feed.health.epoch}. ${feed.health.detail}`;
  notice.classList.toggle("bad", Boolean(reached && stopped));
  put(notice, !reached ? "The server does not answer. Trying again…" : stopped || "");
}

const forget = h("button", { type: "button", class: "plain", onclick: () => setToken("") }, "Forget token");

function showToken() {
  forget.hidden = !token();
}

session.addEventListener("reached", (event) => {
  if (reached !== event.detail) {
    reached = event.detail;
    notify();
  }
});
session.addEventListener("refused", (event) => askForToken(event.detail.given));
session.addEventListener("token", () => {
  showToken();
  feed.forget();
  route();
});

applyTheme();
const link = ([path, title]) => h("li", {}, h("a", { href: `#/${path}`, "data-panel": path }, title));
navigation.append(h("ul", {}, PANELS.map(link)));
document.getElementById("side-foot").append(forget, themeSwitch());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();  // the address names the panel
  content.focus();
});
showToken();
feed.start(new AbortController().signal);
feed.addEventListener("news", notify);
addEventListener("hashchange", route);
route();
