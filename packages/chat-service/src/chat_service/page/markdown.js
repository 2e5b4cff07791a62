// Markdown of models as DOM nodes. No text is ever parsed as HTML, and nothing is loaded: an image becomes a link.
// A long text must not freeze the page, so no regular expression may need quadratic time.

const MAX_DEPTH = 8;
const MAX_INLINE = 10000;
const MAX_FORMATTED = 100000;
const FENCE = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+([\s\S]*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const DIVIDER = /^\|?\s*:?-+:?(?:\s*\|\s*:?-+:?)*\s*\|?$/;
const ESCAPE = "\\\\([\\\\`*_{}\\[\\]()#+\\-.!~|<>])";
const CODE = "(?<!(?<!\\\\)`)(`+)(?!`)([\\s\\S]*?[^`])\\2(?!`)";
const LINK = "!?\\[((?:[^\\[\\]\\\\]|\\\\.|\\[[^\\[\\]]*\\])*)\\]\\(\\s{0,9}<?([^\\s<>()]*(?:\\([^\\s()]*\\)[^\\s<>()]*)*)>?(?:\\s{1,9}\"[^\"]*\")?\\s{0,9}\\)";
const ADDRESS = "<((?:https?:\\/\\/|mailto:)[^\\s<>]+)>|(https?:\\/\\/[^\\s<>\"'\\])]*[^\\s<>\"'\\]).,;:!?*_~])";
const STRONG = "(\\*\\*|__)(?=\\S)([\\s\\S]{0,499}?\\S)\\8";
const EMPHASIS = "([*_])(?=\\S)([\\s\\S]{0,499}?\\S)\\10(?!\\w)";
const INLINE = new RegExp(`${ESCAPE}|${CODE}|${LINK}|${ADDRESS}|${STRONG}|${EMPHASIS}|~~(?=\\S)([\\s\\S]{0,499}?\\S)~~|(?:(?<! ) {2,}|\\\\)?\\n`, "g");
const shown = new WeakMap();

/** Show Markdown in an element, or a very long text without formats. Blocks that have not changed keep their nodes. */
export function showMarkdown(element, source) {
  const before = shown.get(element) ?? [];
  const blocks = source.length > MAX_FORMATTED ? [{ source, render: () => plain(source) }]
    : splitBlocks(source.replace(/\r\n?/g, "\n").split("\n"));
  let same = 0;
  while (same < blocks.length && blocks[same].source === before[same]) same += 1;
  while (element.childNodes.length > same) element.lastChild.remove();
  for (const block of blocks.slice(same)) element.append(block.render(0));
  shown.set(element, blocks.map((block) => block.source));
}

function splitBlocks(lines) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [end, render] = readBlock(lines, at);
    blocks.push({ source: lines.slice(at, end).join("\n"), render });
    at = end;
  }
  return blocks;
}

/** Return the line after the block that begins at a line, and a function that renders the block. */
function readBlock(lines, start) {
  const line = lines[start];
  if (line.length > MAX_INLINE) return [start + 1, () => plain(line)];
  const fence = FENCE.exec(line);
  if (fence) return readFence(lines, start, fence);
  const heading = HEADING.exec(line);
  // The page has headings of level 1 and 2 of its own.
  if (heading) return [start + 1, () => wrap(`h${Math.min(heading[1].length + 2, 6)}`, inline(heading[2].trimEnd().replace(/(?:^|\s)#+$/, "").trim()))];
  if (RULE.test(line)) return [start + 1, () => document.createElement("hr")];
  if (QUOTE.test(line)) return readQuote(lines, start);
  if (ITEM.test(line)) return readList(lines, start);
  if (line.includes("|") && DIVIDER.test((lines[start + 1] ?? "").trim())) return readTable(lines, start);
  let end = start + 1;
  while (end < lines.length && lines[end].trim() && !beginsBlock(lines[end])) end += 1;
  const text = lines.slice(start, end).map((item) => item.replace(/^\s+/, "")).join("\n");
  return [end, () => wrap("p", inline(text))];
}

function beginsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

function readFence(lines, start, [, mark, language]) {
  const isEnd = (line) => line.trim().startsWith(mark) && !line.trim().replaceAll(mark[0], "");
  let end = start + 1;
  while (end < lines.length && !isEnd(lines[end])) end += 1;
  const text = lines.slice(start + 1, end).join("\n");
  return [Math.min(end + 1, lines.length), () => {
    const code = wrap("code", [text]);
    const block = wrap("pre", [code]);
    block.tabIndex = 0; // long lines can be scrolled with the keyboard
    block.setAttribute("role", "region");
    block.setAttribute("aria-label", language.trim() ? `Code in ${language.trim()}` : "Code");
    return block;
  }];
}

function readQuote(lines, start) {
  let end = start;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inner = lines.slice(start, end).map((line) => line.replace(QUOTE, ""));
  return [end, (depth) => wrap("blockquote", children(inner, depth))];
}

function readList(lines, start) {
  const isNumbered = /\d/.test(ITEM.exec(lines[start])[2]);
  const items = [];
  let at = start;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    if (!item || /\d/.test(item[2]) !== isNumbered || RULE.test(lines[at])) break;
    const indent = item[0].length;
    const inner = [lines[at].slice(indent)];
    at += 1;
    while (at < lines.length && belongsToItem(lines, at, indent)) {
      inner.push(lines[at].replace(new RegExp(`^ {0,${indent}}`), ""));
      at += 1;
    }
    items.push(inner);
    while (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] ?? "")) at += 1;
  }
  const first = Number.parseInt(lines[start].trim(), 10);
  return [at, (depth) => {
    const list = wrap(isNumbered ? "ol" : "ul", items.map((inner) => wrap("li", itemNodes(inner, depth))));
    if (isNumbered && first !== 1) list.start = first;
    return list;
  }];
}

function belongsToItem(lines, at, indent) {
  const line = lines[at];
  if (line.trim()) return line.startsWith(" ".repeat(Math.min(indent, 2))) || (!beginsBlock(line) && Boolean(lines[at - 1].trim()));
  return (lines[at + 1] ?? "").startsWith(" ".repeat(Math.min(indent, 2))) && Boolean((lines[at + 1] ?? "").trim());
}

/** Return the nodes of a list item. The text of a simple item needs no paragraph. */
function itemNodes(lines, depth) {
  const nodes = children(lines, depth);
  return nodes[0]?.tagName === "P" ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
}

function readTable(lines, start) {
  let end = start + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end += 1;
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/);
  const row = (line, tag) => wrap("tr", cells(line).map((cell) => wrap(tag, inline(cell.trim()))));
  return [end, () => {
    const head = wrap("thead", [row(lines[start], "th")]);
    const body = wrap("tbody", lines.slice(start + 2, end).map((line) => row(line, "td")));
    const frame = wrap("div", [wrap("table", [head, body])]);
    frame.className = "table";
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "Table");
    return frame;
  }];
}

function children(lines, depth) {
  if (depth >= MAX_DEPTH) return [wrap("p", [lines.join("\n")])];
  return splitBlocks(lines).map((block) => block.render(depth + 1));
}

/** Return the nodes of a text with emphasis, code and links. */
function inline(text, depth = 0) {
  if (depth >= MAX_DEPTH || text.length > MAX_INLINE) return [text];
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const node = inlineNode(match, text[match.index - 1] ?? "", depth);
    if (node === null) continue;
    nodes.push(text.slice(at, match.index), node);
    at = match.index + match[0].length;
  }
  return [...nodes, text.slice(at)].filter((node) => node !== "");
}

function inlineNode(match, before, depth) {
  const [whole, escaped, , code, label, target, address, bare, strong, strongText, mark, emphasis, struck] = match;
  if (escaped !== undefined) return escaped;
  if (code !== undefined) return wrap("code", [code.replace(/\n/g, " ").trim()]);
  if (target !== undefined) return link(target, inline(label || target, depth + 1), whole);
  if (address ?? bare) return link(address ?? bare, [address ?? bare], whole);
  if ((strong ?? mark ?? "").startsWith("_") && /\w/.test(before)) return null;
  if (strongText !== undefined) return wrap("strong", inline(strongText, depth + 1));
  if (emphasis !== undefined) return wrap("em", inline(emphasis, depth + 1));
  if (struck !== undefined) return wrap("del", inline(struck, depth + 1));
  return whole === "\n" ? "\n" : document.createElement("br");
}

/** Return a link to another page, or the source text if the address is of another kind, such as `javascript:`. */
function link(target, nodes, source) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return source;
  const element = wrap("a", nodes);
  element.href = target;
  element.target = "_blank";
  element.rel = "noopener noreferrer";
  return element;
}

function plain(text) {
  const element = wrap("p", [text]);
  element.className = "words";
  return element;
}

function wrap(tag, nodes) {
  const element = document.createElement(tag);
  for (const node of nodes) element.append(node); // too many arguments of one call would be an error
  return element;
}
