// Drives a chat of the npm package `ai` over HTTP: `node vercel_client.mjs AI_MODULE BASE_URL SCENARIO STEPS_JSON`.
// A step is an array: the name of an operation and its arguments. The last line of the output is what the client has.
// A further argument replaces the path `api/chat` of the chat.
import { pathToFileURL } from 'node:url';

const [modulePath, base, scenario, stepsText, path = 'api/chat'] = process.argv.slice(2);
const ai = await import(pathToFileURL(modulePath).href);
const { AbstractChat, DefaultChatTransport } = ai;
const complete = ({ messages }) =>
  ai.lastAssistantMessageIsCompleteWithApprovalResponses({ messages }) ||
  ai.lastAssistantMessageIsCompleteWithToolCalls({ messages });

class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = (message) => { this.messages = [...this.messages, structuredClone(message)]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => { this.messages = this.messages.with(index, structuredClone(message)); };
  snapshot = (value) => structuredClone(value);
}

class NodeChat extends AbstractChat {
  constructor(options) {
    const state = new State();
    super({ ...options, state });
    this.kept = state;
  }
}

const seen = { data: [], calls: [], errors: [], finished: [], chunks: [] };
let cutAfter = Infinity;
let tools;
let user = 'ana';
let chat;
const watch = async (url, options) => {
  const response = await fetch(url, options);
  if (!response.ok || response.body === null) return response;
  let text = '';
  const decoder = new TextDecoder();
  const body = response.body.pipeThrough(new TransformStream({
    transform(bytes, controller) {
      text += decoder.decode(bytes, { stream: true });
      if (text.includes(cutAfter)) { controller.error(new TypeError('network error')); return; }
      controller.enqueue(bytes);
    },
    flush() { seen.chunks.push(text); },
  }));
  return new Response(body, { status: response.status, headers: response.headers });
};

function open(id, messages = []) {
  chat = new NodeChat({
    id,
    transport: new DefaultChatTransport({
      api: `${base}/${scenario}/${path}`,
      headers: () => ({ 'x-user': user }),
      body: () => (tools ? { tools } : {}),
      fetch: watch,
    }),
    sendAutomaticallyWhen: complete,
    onData: (part) => seen.data.push(part),
    onToolCall: ({ toolCall }) => seen.calls.push(toolCall.toolName),
    onError: (error) => seen.errors.push({ message: error.message, status: error.statusCode }),
    onFinish: ({ isError, isDisconnect, finishReason }) => seen.finished.push({ isError, isDisconnect, finishReason }),
  });
  chat.kept.messages = messages;
}

const toolParts = () => chat.messages.flatMap((message) => message.parts.filter(ai.isToolUIPart));
const settled = async () => {
  do {
    await new Promise((resolve) => setImmediate(resolve));
  } while (chat.status === 'submitted' || chat.status === 'streaming');
};
const operations = {
  open: (id) => open(id),
  user: (name) => { user = name; },
  declare: (list) => { tools = list; },
  cutAfter: (text) => { cutAfter = text; },
  ask: (text, files) => chat.sendMessage({ text, files }),
  decide: (approved, reason, index = 0) => {
    const waiting = toolParts().filter((part) => part.state === 'approval-requested');
    return chat.addToolApprovalResponse({ id: waiting[index].approval.id, approved, reason });
  },
  output: (tool, value) => {
    const part = toolParts().find((item) => item.type === `tool-${tool}` && item.state === 'input-available');
    return chat.addToolOutput({ tool, toolCallId: part.toolCallId, output: value });
  },
  send: () => chat.sendMessage(),
  regenerate: () => chat.regenerate(),
  edit: (index, part, fields) => {
    const messages = structuredClone(chat.messages);
    Object.assign(messages[index].parts[part], fields);
    chat.kept.messages = messages;
  },
  insert: (message) => { chat.kept.messages = [...chat.messages, message]; },
  reload: async (id) => {
    const response = await fetch(`${base}/${scenario}/${path}/${id}`, { headers: { 'x-user': user } });
    open(id, await response.json());
  },
  resume: async () => {
    cutAfter = Infinity;
    void chat.resumeStream();
    while (chat.status === 'ready' || chat.status === 'error') await new Promise((resolve) => setImmediate(resolve));
  },
  allow: () => fetch(`${base}/${scenario}/open`, { method: 'POST' }),
  settled,
  messages: () => { seen.saved = structuredClone(chat.messages); },
};

const background = new Set(['decide', 'output']);
for (const [name, ...words] of JSON.parse(stepsText)) {
  const running = operations[name](...words);
  await running;
  if (background.has(name)) await settled();
}
await settled();
console.log(JSON.stringify({ messages: chat.messages, status: chat.status, ...seen }));
