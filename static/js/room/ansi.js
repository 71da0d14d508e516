// Terminal colours as pieces of text with classes. Nothing here ever becomes HTML.
import { AnsiUp } from "ansi_up";

/** Control characters that mean nothing on a page; line feeds, carriage returns, tabs and escapes stay. */
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u007f]/g;

export class AnsiText extends AnsiUp {
  constructor() {
    super();
    this.pieces = [];
  }

  /** `[{text, classes}]` of the next bit of a stream; colours go on from the bit before. */
  parse(text) {
    this.pieces = [];
    this.ansi_to_html(text);
    return this.pieces;
  }

  // What ansi_up would print as HTML is collected here as text instead.
  transform_to_html({ text, bold, faint, italic, underline, fg, bg }) {
    const classes = [];
    if (bold) classes.push("ansi-bold");
    if (faint) classes.push("ansi-faint");
    if (italic) classes.push("ansi-italic");
    if (underline) classes.push("ansi-underline");
    if (fg) classes.push(`${this.nearest(fg)}-fg`);
    if (bg) classes.push(`${this.nearest(bg)}-bg`);
    this.pieces.push({ text: text.replace(CONTROL, ""), classes });
    return "";
  }

  /** A link in the output is shown as its text: candidates' programs don't place links into interviewers' pages. */
  process_hyperlink({ text }) {
    return this.transform_to_html(this.with_state({ text }));
  }

  /** Of the sixteen colours that have a class, the one most like this. */
  nearest({ rgb, class_name: name }) {
    if (name !== "truecolor") return name;
    const distance = (colour) => colour.rgb.reduce((sum, part, at) => sum + (part - rgb[at]) ** 2, 0);
    return this.ansi_colors.flat().reduce((best, colour) => (distance(colour) < distance(best) ? colour : best)).class_name;
  }
}
