/* Light and dark: as the system has it, or as chosen here, which is remembered. */

import { h, put } from "./dom.js";

const KEY = "tidemill.theme";
const NEXT = { system: "light", light: "dark", dark: "system" };

function chosen() {
  const found = localStorage.getItem(KEY);
  return found in NEXT ? found : "system";
}

/** Take over what was chosen before. */
export function applyTheme() {
  const theme = chosen();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** A button that goes from one theme to the next. */
export function themeSwitch() {
  const button = h("button", { type: "button", class: "plain", id: "theme" });
  const show = () => {
    put(button, `Theme: ${chosen()}`);
    button.setAttribute("aria-label", `Theme: ${chosen()}. Change to ${NEXT[chosen()]}.`);
  };
  button.addEventListener("click", () => {
    localStorage.setItem(KEY, NEXT[chosen()]);
    applyTheme();
    show();
  });
  show();
  return button;
}
