// Parse server-sent events with the npm package eventsource-parser: node eventsource_parser.mjs MODULE < BYTES
// The output is a JSON array with the name and the data of each event.
import { pathToFileURL } from "node:url";

const { createParser } = await import(pathToFileURL(process.argv[2]));
const events = [];
const parser = createParser({ onEvent: ({ event, data }) => events.push([event ?? "message", data]) });
const decoder = new TextDecoder();
for await (const chunk of process.stdin) parser.feed(decoder.decode(chunk, { stream: true }));
console.log(JSON.stringify(events));
