const SVG = "http://www.w3.org/2000/svg";

/** An icon from the sprite, as the template tag of the same name prints it. Decorative: the text beside it says what it means. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `${document.documentElement.dataset.icons}#${name}`);
  svg.append(use);
  return svg;
}
