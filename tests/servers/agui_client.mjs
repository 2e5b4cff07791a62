// Steps in one thread of the npm package @ag-ui/client: node agui_client.mjs MODULE ADDRESS SCENARIO STEPS
// The last line of the output is what the client has at the end, as JSON.
import { pathToFileURL } from "node:url";

const [module, address, scenario, steps] = process.argv.slice(2);
const { HttpAgent } = await import(pathToFileURL(module));
console.error = console.warn = () => {};

const seen = { runs: [], errors: [], custom: [], outcomes: [] };
let thread = "t-1";
let number = 0;
let agent = create();

function create(options = {}) {
  return new HttpAgent({ url: `${address}/${scenario}/agui`, threadId: thread, headers: {}, ...options });
}

async function run(parameters = {}, onEvent = () => {}) {
  const types = [];
  seen.runs.push(types);
  try {
    await agent.runAgent(parameters, {
      onEvent: ({ event }) => (types.push(event.type), onEvent(event)),
      onCustomEvent: ({ event }) => void seen.custom.push({ name: event.name, value: event.value }),
      onRunErrorEvent: ({ event }) => void seen.errors.push({ code: event.code, message: event.message }),
      onRunFinishedEvent: ({ event }) => void seen.outcomes.push(event.outcome),
    });
  } catch (error) {
    seen.errors.push({ thrown: String(error) });
  }
}

const ask = (text) => agent.addMessage({ id: `m-${++number}`, role: "user", content: text });

const actions = {
  async thread(id) {
    thread = id;
    agent = create();
  },
  async user(name) {
    agent = create({ headers: { "x-user": name }, initialMessages: agent.messages });
  },
  async ask(text, tools = []) {
    ask(text);
    await run({ tools });
  },
  async run() {
    await run();
  },
  async reload() {
    agent = create();
    await run();
  },
  async resume(...payloads) {
    const resume = agent.pendingInterrupts.map(({ id }, index) =>
      payloads[index] === null
        ? { interruptId: id, status: "cancelled" }
        : { interruptId: id, status: "resolved", payload: payloads[index] },
    );
    seen.interrupts = agent.pendingInterrupts;
    await run({ resume });
  },
  async race(...payloads) {
    // Several clients of one thread answer the same interrupt at once. The last one loads the thread afterwards.
    const [{ id }] = agent.pendingInterrupts;
    const agents = payloads.map(() => create({ initialMessages: agent.messages }));
    const running = agents.map((client, index) => {
      agent = client;
      return run({ resume: [{ interruptId: id, status: "resolved", payload: payloads[index] }] });
    });
    await Promise.race(running);
    await actions.open();
    await Promise.all(running);
    seen.raced = agents.map(({ messages }) => messages);
    await actions.reload();
  },
  async result(content, tools = []) {
    const ids = seen.outcomes.at(-1).pendingToolCallIds;
    for (const id of ids) {
      agent.addMessage({ id: `result-${++number}`, role: "tool", toolCallId: id, content });
    }
    await run({ tools });
  },
  async cut(text, type) {
    ask(text);
    await run({}, (event) => event.type === type && agent.abortRun());
  },
  async open() {
    await fetch(`${address}/${scenario}/open`, { method: "POST" });
  },
  async settle() {
    // Another run may still use the conversation: ask again until it has ended.
    for (let left = 100; left > 0; left--) {
      agent = create();
      const before = seen.errors.length;
      await run();
      if (seen.errors.length === before) return;
      seen.errors.length = before;
      await new Promise((resume) => setTimeout(resume, 20));
    }
  },
  async edit(index, content) {
    agent.messages[index].content = content;
  },
  async forge(message) {
    agent.addMessage(message);
  },
};

for (const [name, ...words] of JSON.parse(steps)) await actions[name](...words);
console.log(JSON.stringify({ ...seen, messages: agent.messages, pending: agent.pendingInterrupts }));
