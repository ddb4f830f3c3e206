/* A text field for SQL with colours, completion, and a mark where an error is.

   The text stands twice: in a textarea, which is what people edit and screen readers read, and below it in colours. */

import { fill, h, newId } from "../core/dom.js";
import { completions, written } from "./completion.js";
import { offsetOf, tokens } from "./tokens.js";

export function editor(text, changed, run) {
  const listId = newId("suggestions");
  const area = h("textarea", { class: "code", spellcheck: "false", autocapitalize: "off", autocomplete: "off", rows: "1", "aria-label": "SQL statement", "aria-autocomplete": "list", "aria-controls": listId });
  const layer = h("pre", { class: "code layer", "aria-hidden": "true" });
  const list = h("ul", { class: "suggestions", id: listId, role: "listbox", "aria-label": "Suggestions", hidden: true });
  const announcement = h("span", { class: "unseen", role: "status" });
  const element = h("div", { class: "editor" }, layer, area, list, announcement);
  let vocabulary = { relations: [], functions: [] };
  let offered = null, picked = 0, wrong = null;

  area.value = text;

  function paint() {
    const whole = area.value;
    const caret = h("span", { class: "caret" });
    const shown = tokens(whole).flatMap((token) => {
      const marked = wrong !== null && token.at <= wrong && wrong < token.at + Math.max(1, token.text.length);
      const kind = marked ? `${token.kind} wrong` : token.kind;
      const at = offered ? offered.from - token.at : -1;
      if (at < 0 || at >= token.text.length) return [h("span", { class: kind }, token.text)];
      return [h("span", { class: kind }, token.text.slice(0, at)), caret, h("span", { class: kind }, token.text.slice(at))];
    });
    fill(layer, shown, offered && !caret.isConnected && !shown.includes(caret) ? caret : null, wrong === whole.length ? h("span", { class: "wrong" }, " ") : null, "\n");
    if (offered) {
      list.style.setProperty("left", `${Math.max(0, Math.min(caret.offsetLeft, element.clientWidth - 260))}px`);
      list.style.setProperty("top", `${caret.offsetTop + 22}px`);
    }
  }

  function offer(asked) {
    const found = area.selectionStart === area.selectionEnd ? completions(area.value, area.selectionStart, vocabulary, asked) : { items: [] };
    offered = found.items.length ? found : null;
    picked = 0;
    list.hidden = !offered;
    announcement.textContent = offered ? `${offered.items.length} suggestions` : "";
    paint();
    show();
  }

  function show() {
    const items = offered?.items ?? [];
    fill(list, items.map((item, i) => h("li", { role: "option", id: `${listId}-${i}`, "aria-selected": String(i === picked), onpointerdown: (event) => { event.preventDefault(); picked = i; take(); } },
      h("span", { class: "suggested" }, item.text), h("span", { class: "quiet" }, item.detail || item.kind))));
    if (offered) area.setAttribute("aria-activedescendant", `${listId}-${picked}`);
    else area.removeAttribute("aria-activedescendant");
    list.children[picked]?.scrollIntoView({ block: "nearest" });
  }

  function close() {
    if (!offered) return;
    offered = null;
    list.hidden = true;
    announcement.textContent = "";
    paint();
    show();
  }

  function take() {
    const { from, to, items } = offered;
    const name = written(items[picked]);
    close();
    area.focus();
    area.setSelectionRange(from, to);
    // The only way to change the text that the browser's undo knows of; where it is missing, undo does not.
    if (!document.execCommand("insertText", false, name)) {
      area.setRangeText(name, from, to, "end");
      area.dispatchEvent(new Event("input"));
    }
    close();
  }

  area.addEventListener("input", () => { wrong = null; changed(area.value); offer(false); });
  area.addEventListener("blur", close);
  area.addEventListener("click", close);
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      close();
      run();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      offer(true);
    } else if (offered && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      picked = (picked + (event.key === "ArrowDown" ? 1 : offered.items.length - 1)) % offered.items.length;
      show();
    } else if (offered && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      take();
    } else if (offered && event.key === "Escape") {
      event.preventDefault();
      close();
    } else if (offered && (event.key === "ArrowLeft" || event.key === "ArrowRight" || event.key === "Home" || event.key === "End")) {
      close();
    }
  });
  paint();

  return {
    element,
    text: () => area.value,
    set(value) {
      area.value = value;
      wrong = null;
      changed(value);
      close();
      paint();
      area.focus();
    },
    /** Take over names for completion, as `/v1/vocabulary` gives them. */
    learn(found) {
      vocabulary = found;
    },
    /** Mark a place `{line, column}`, or nothing. */
    mark(place) {
      wrong = place ? offsetOf(area.value, place.line, place.column) : null;
      paint();
      area.toggleAttribute("aria-invalid", Boolean(place));
    },
  };
}
