/* Asks for a token when the server wants one. */

import { h } from "./dom.js";
import { setToken } from "./server.js";

let open = null;

/** Ask, once at a time; `refused` says that the token of before was not accepted. */
export function askForToken(refused) {
  if (open) return;
  const field = h("input", { type: "password", autocomplete: "off", required: true, spellcheck: "false", name: "token" });
  open = h(
    "dialog",
    { "aria-labelledby": "token-title" },
    h(
      "form",
      { method: "dialog", onsubmit: (event) => { event.preventDefault(); given(field.value.trim()); } },
      h("h2", { id: "token-title" }, "This server needs a token"),
      refused ? h("div", { class: "problem", role: "alert" }, h("p", {}, h("strong", {}, "TM8005 "), "the token is not known to the server")) : null,
      h("label", { class: "field" }, h("span", {}, "Token"), field),
      h("p", { class: "quiet" }, "It is kept in this tab until the tab is closed, and sent to this server only."),
      h("button", { class: "main", type: "submit" }, "Continue"),
    ),
  );
  open.addEventListener("cancel", (event) => event.preventDefault());  // nothing can be shown without it
  document.body.append(open);
  open.showModal();
  field.focus();
}

function given(text) {
  open.close();
  open.remove();
  open = null;
  setToken(text);
}
