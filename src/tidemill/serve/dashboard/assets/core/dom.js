/* Makes elements. Texts become text nodes and nothing else, so no name or value of the data can become markup. */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with attributes, listeners (`onclick: f`), `style: {property: value}`, and children. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Set the text of an element if it is another one, so that selections stay. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

let made = 0;

/** An id that no other element has. */
export function newId(prefix) {
  made += 1;
  return `${prefix}-${made}`;
}
