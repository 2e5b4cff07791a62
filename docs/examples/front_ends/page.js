// Shared by the pages: server-sent events, elements, and a conversation that a reload shows again.

/** Yield the JSON objects of a stream of server-sent events. */
export async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (buffer + value).split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) yield JSON.parse(block.slice(block.indexOf("data: ") + "data: ".length));
  }
}

export function element(tag, properties, ...children) {
  const created = Object.assign(document.createElement(tag), properties);
  created.append(...children);
  return created;
}

// The id of the conversation is in the address, so that a reload shows the same conversation.
location.hash ||= crypto.randomUUID();
export const session = location.hash.slice(1);

/** A run was refused because the conversation has changed or is in use. */
export class Conflict extends Error {}

/**
 * Show a conversation.
 *
 * `stored` is the address of its stored messages. `run(input)` posts a message `{ text }`, a decision
 * `{ decision, approved }` or nothing, and yields changes: `{ text }`, `{ call }`, `{ result }` and `{ wait }`.
 */
export function showConversation({ stored, run }) {
  const show = (id) => document.getElementById(id);
  let messages = [];
  let waits = [];

  async function submit(input) {
    show("error").textContent = "";
    show("status").textContent = "running";
    waits = [];
    if (input?.text) messages.push({ role: "user", text: input.text, tools: [] });
    messages.push({ role: "assistant", text: "", tools: [] });
    render();
    try {
      for await (const change of run(input)) {
        apply(change);
        render();
      }
      show("status").textContent = "ready";
    } catch (error) {
      show("error").textContent = error.message;
      show("status").textContent = "stopped";
      if (error instanceof Conflict) setTimeout(connect, 500);
    }
  }

  function apply({ text, call, result, wait }) {
    const last = messages.at(-1);
    if (text) last.text += text;
    if (call && !tool(call.id)) last.tools.push({ ...call });
    if (result) tool(result.id).result = result.text;
    if (wait) waits.push(wait);
  }

  const tool = (id) => messages.flatMap(({ tools }) => tools).find((item) => item.id === id);

  function render() {
    show("messages").replaceChildren(...messages.flatMap(({ role, text, tools }) => [
      ...(text ? [element("p", { className: role, textContent: text })] : []),
      ...tools.map((item) =>
        element("div", { className: "tool", textContent: item.result ? `${item.text} → ${item.result}` : item.text })),
    ]));
    show("waits").replaceChildren(...waits.map((wait) =>
      element(
        "div",
        { className: "interrupt" },
        element("p", { textContent: `Run ${wait.text}?` }),
        element("button", { textContent: "Approve", onclick: () => submit({ decision: wait, approved: true }) }),
        element("button", { textContent: "Reject", onclick: () => submit({ decision: wait, approved: false }) }),
      )));
  }

  /** Load the stored messages, and continue the conversation if its last answer is missing. */
  async function connect() {
    messages = await (await fetch(stored)).json();
    render();
    const last = messages.at(-1);
    if (last && (last.role === "user" || last.tools.length > 0)) await submit();
    else show("status").textContent = "ready";
  }

  show("form").onsubmit = (event) => {
    event.preventDefault();
    submit({ text: event.target.text.value });
    event.target.reset();
  };
  connect();
}
