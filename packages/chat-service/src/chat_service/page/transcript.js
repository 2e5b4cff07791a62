// The conversation on the page: messages, tools, recalled notes, and forms for waiting calls.

import { parseJson } from "./api.js";
import { showMarkdown } from "./markdown.js";

// The same characters as in chat_core/approvals/display.py.
const HIDDEN = /(?![\t\n])[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cs}\u2028\u2029\ufff9-\ufffb\ufffe\uffff]/gu;
const BUTTONS = {
  approval: [["approve", "Approve", "go"], ["reject", "Reject", "no"]],
  schedule: [["approve", "Run now", "go"], ["reject", "Reject", "no"]],
  interrupted: [["retry", "Run again", "go"], ["fail", "Mark as failed", "no"]],
  result: [["complete", "Send the result", "go"], ["fail", "Mark as failed", "no"]],
};
const QUESTIONS = {
  approval: "waits for your approval",
  schedule: "waits for its time",
  interrupted: "was interrupted, and may have taken effect",
  result: "waits for its result",
};

/** Create an element with a class and children. */
export function make(tag, className = "", ...nodes) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...nodes);
  return element;
}

/** The conversation of one session. */
export class Transcript {
  #log;
  #tools = new Map();
  #open = null; // the response that is being written
  #frame = 0;
  #waiting = null;
  #questions = [];

  constructor(log) {
    this.#log = log;
  }

  /** Remove everything. */
  clear() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#open = null;
    this.#waiting = null;
    this.#tools.clear();
    this.#questions = [];
    this.#log.replaceChildren();
  }

  /** Show stored messages, as `GET /sessions/ID/messages` returns them. */
  showStored(messages) {
    for (const { role, content, metadata } of messages) {
      if (role === "user") this.addQuestion(content);
      else if (role === "assistant") {
        this.addText(content);
        this.endText();
      } else if (role === "tool_use") this.startTool(metadata.id, metadata.name, metadata.arguments);
      else this.endTool(metadata.id, metadata.success, content);
    }
  }

  /** Show a message of the user. */
  addQuestion(text) {
    this.endText();
    const item = make("article", "user", make("h2", "unseen", "You"), make("p", "words", text));
    this.#questions.push(item);
    this.#append(item);
  }

  /** Show notes of the memory below the messages that they were recalled for. */
  showRecalled(recalled) {
    this.#log.querySelectorAll(".recalled").forEach((item) => item.remove());
    for (const { message, notes } of recalled) {
      const count = notes.length === 1 ? "1 note" : `${notes.length} notes`;
      const list = make("ul", "", ...notes.map(describeNote));
      const details = make("details", "recalled", make("summary", "", `${count} recalled from memory`), list);
      this.#questions[message]?.after(details);
    }
  }

  /** Add text to the response that is being written. */
  addText(text) {
    if (this.#open === null) {
      const body = make("div", "markdown");
      this.#open = { body, text: "", item: make("article", "model live", make("h2", "unseen", "Answer"), body) };
      this.#append(this.#open.item);
    }
    this.#open.text += text;
    this.#frame ||= requestAnimationFrame(() => this.#render());
  }

  /** Discard the text of the response that is being written, because it is sent again. */
  resetText() {
    if (this.#open !== null) this.#open.text = "";
    else if (this.#log.lastElementChild?.classList.contains("model")) this.#log.lastElementChild.remove();
    this.#frame ||= requestAnimationFrame(() => this.#render());
  }

  /** End the response that is being written. */
  endText() {
    if (this.#open === null) return;
    this.#render();
    this.#open.item.classList.remove("live");
    if (!this.#open.text) this.#open.item.remove();
    this.#open = null;
  }

  /** Show a tool call. */
  startTool(id, name, args) {
    this.endText();
    if (this.#tools.has(id)) return;
    const status = make("span", "badge running", "running");
    const item = make("article", "tool", make("h2", "tool-name", reveal(name), " ", status));
    if (args) item.append(describeArguments(args));
    this.#tools.set(id, { item, status });
    this.#append(item);
  }

  /** Show the result of a tool call. */
  endTool(id, success, content) {
    const tool = this.#tools.get(id);
    if (tool === undefined) return;
    setStatus(tool.status, success ? "completed" : "failed", success ? "done" : "failed");
    tool.item.querySelector(".result")?.remove();
    if (!content) return;
    const result = make("details", "result", make("summary", "", "Result"), make("pre", "", reveal(content)));
    result.querySelector("pre").tabIndex = 0;
    tool.item.append(result);
  }

  /** Show forms for waiting calls. `decide(wait, decision)` sends a decision. */
  showWaiting(waiting, decide) {
    this.hideWaiting();
    this.endText();
    const cards = waiting.map((wait) => waitForm(wait, decide));
    if (!cards.length) cards.push(make("p", "notice", "A call waits for the decision of another user."));
    for (const wait of waiting) {
      const tool = this.#tools.get(wait.id);
      if (tool) setStatus(tool.status, "approval", "waiting");
    }
    this.#waiting = make("section", "waiting", ...cards);
    this.#waiting.setAttribute("aria-label", "Calls that wait for a decision");
    this.#append(this.#waiting);
  }

  /** Remove the forms. Calls without a result run again. */
  hideWaiting() {
    this.#waiting?.remove();
    this.#waiting = null;
    for (const { status } of this.#tools.values()) {
      if (status.classList.contains("approval")) setStatus(status, "running", "running");
    }
  }

  /** Report a failed decision in the form of its call. */
  showDecisionError(id, text) {
    const form = [...this.#log.querySelectorAll("form.card")].find((item) => item.dataset.call === id);
    form?.querySelector(".error").replaceChildren(text);
    form?.querySelectorAll("button").forEach((button) => { button.disabled = false; });
  }

  #render() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (this.#open !== null) this.#keepPlace(() => showMarkdown(this.#open.body, this.#open.text));
  }

  #append(item) {
    this.#keepPlace(() => this.#log.append(item));
  }

  /** Change the page, and scroll to its end if its end was visible before. */
  #keepPlace(change) {
    const page = document.documentElement;
    const isAtEnd = page.scrollHeight - page.clientHeight - page.scrollTop < 120;
    change();
    if (isAtEnd) page.scrollTop = page.scrollHeight;
  }
}

function setStatus(element, className, text) {
  element.className = `badge ${className}`;
  element.textContent = text;
}

/** Return a text with its invisible characters, and those that reorder text, as escapes. */
export function reveal(text) {
  return text.replace(HIDDEN, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
}

function describeNote(note) {
  const about = [note.source, note.said_at?.slice(0, 10)].filter(Boolean).join(", ");
  return make("li", "", reveal(note.text), ...(about ? [" ", make("small", "", `(${about})`)] : []));
}

function describeArguments(args) {
  const rows = Object.entries(args).map(([name, value]) =>
    make("div", "", make("dt", "", reveal(name)), make("dd", "", reveal(typeof value === "string" ? value : JSON.stringify(value)))));
  return make("dl", "args", ...rows);
}

// --- Waiting calls ---------------------------------------------------------------------------------------------------

function waitForm(wait, decide) {
  const form = make("form", "card");
  form.dataset.call = wait.id;
  const heading = make("h2", "", make("span", "tool-name", wait.tool), ` ${QUESTIONS[wait.kind]}`);
  const fields = Object.entries(wait.arguments).map(([name, value]) => field(wait.id, name, value));
  const canEdit = wait.kind === "approval" || wait.kind === "schedule";
  if (!canEdit) fields.forEach(({ input }) => { input.disabled = true; });
  form.append(heading, ...fields.map(({ element }) => element));
  if (fields.some(({ name, shown }) => reveal(name + shown) !== name + shown)) {
    form.append(make("p", "why", `The arguments contain invisible characters: ${reveal(JSON.stringify(wait.arguments))}`));
  }
  if (wait.expires_at) form.append(make("p", "help", `Can be decided until ${new Date(wait.expires_at).toLocaleString()}.`));
  if (wait.at) form.append(make("p", "help", `Planned for ${new Date(wait.at).toLocaleString()}.`));
  const reason = textField(`${wait.id} reason`, wait.kind === "result" ? "Result" : "Reason, if you refuse", "");
  const error = make("p", "error");
  error.setAttribute("role", "alert");
  const buttons = BUTTONS[wait.kind].map(([action, label, className]) => {
    const button = make("button", className, label);
    button.value = action;
    return button;
  });
  form.append(reason.element, error, make("p", "buttons", ...buttons));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const action = event.submitter?.value ?? buttons[0].value;
    try {
      const decision = readDecision(wait, action, fields, reason.input.value, canEdit);
      buttons.forEach((button) => { button.disabled = true; });
      error.replaceChildren();
      decide(wait, decision);
    } catch (problem) {
      error.textContent = problem.message;
    }
  });
  return form;
}

function readDecision(wait, action, fields, text, canEdit) {
  const decision = { id: wait.id, action, arguments: wait.arguments, revision: wait.revision };
  if (action === "complete") decision.result = text;
  else if (action !== "approve" && action !== "retry" && text) decision.reason = text;
  if (action === "approve" && canEdit) {
    const edited = Object.fromEntries(fields.map(({ name, read }) => [name, read()]));
    if (JSON.stringify(edited) !== JSON.stringify(wait.arguments)) decision.edited_arguments = edited;
  }
  return decision;
}

function isNumber(value) {
  return typeof value === "number" || JSON.isRawJSON?.(value) === true;
}

/** Return a form field for an argument. Its `read()` returns a value of the same JSON type. */
function field(call, name, value) {
  const label = reveal(name);
  const shown = typeof value === "string" ? value : JSON.stringify(value, null, 1);
  const made = typeof value === "boolean" ? checkField(`${call} ${name}`, label, value)
    : textField(`${call} ${name}`, label, shown, !isNumber(value));
  const before = made.input.value; // the browser changes some characters, such as the line end CR LF
  const read = () => {
    if (typeof value === "boolean") return made.input.checked;
    if (made.input.value === before) return value;
    if (typeof value === "string") return made.input.value;
    try {
      const found = parseJson(made.input.value);
      if (!isNumber(value) || isNumber(found)) return found;
    } catch {
      // Reported below, with the name of the field.
    }
    throw new Error(`${label} must be ${isNumber(value) ? "a number" : "JSON"}.`);
  };
  return { name, shown, element: made.element, input: made.input, read };
}

function checkField(id, name, value) {
  const input = make("input");
  input.type = "checkbox";
  input.checked = value;
  input.id = `field ${id}`.replace(/\s/g, "-");
  const label = make("label", "", name);
  label.htmlFor = input.id;
  return { input, element: make("p", "field check", input, label) };
}

function textField(id, name, value, isLong = true) {
  const input = make(isLong ? "textarea" : "input");
  if (isLong) input.rows = Math.min(8, value.split("\n").length);
  else input.inputMode = "decimal";
  input.value = value;
  input.id = `field ${id}`.replace(/\s/g, "-");
  const label = make("label", "", name);
  label.htmlFor = input.id;
  return { input, element: make("p", "field", label, input) };
}
