// The chat page: the list of sessions, the open session, and the run that the page follows.

import { Refused, load, newKey, pause, readEvents, request } from "./api.js";
import { Transcript, make } from "./transcript.js";

const TERMINAL = new Set(["done", "paused", "error"]);
const $ = (id) => document.getElementById(id);
const transcript = new Transcript($("log"));
const state = { session: null, title: null, run: null, runState: null, last: null, isActive: false, next: null, opened: new AbortController() };

// --- Requests --------------------------------------------------------------------------------------------------------

/** Run a function of the page, and show its errors. */
async function guard(action) {
  $("problem").replaceChildren();
  try {
    return await action();
  } catch (error) {
    if (error.name !== "AbortError") report(error);
    return undefined;
  }
}

function report(error) {
  if (error instanceof Refused && error.status === 401) showSignIn();
  else showProblem(error instanceof Refused ? error.message : "The service cannot be reached.");
}

function showProblem(text, ...buttons) {
  $("problem").replaceChildren(make("p", "alert", text, " ", ...buttons));
}

function say(text) {
  $("said").textContent = text;
}

function showSignIn() {
  $("sign-in").hidden = false;
  $("composer").hidden = true;
  $("token").focus();
}

// --- Sessions --------------------------------------------------------------------------------------------------------

async function listSessions(after) {
  const page = await load("GET", `api/v1/sessions${after ? `?after=${encodeURIComponent(after)}` : ""}`);
  if (!after) $("sessions").replaceChildren();
  for (const session of page.sessions) $("sessions").append(sessionItem(session));
  state.next = page.next;
  $("more").hidden = page.next === null;
}

function sessionItem({ id, title }) {
  const link = make("a", "", title || "Untitled session");
  link.href = `?session=${id}`;
  if (id === state.session) link.setAttribute("aria-current", "page");
  link.addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState(null, "", link.href);
    guard(() => openSession(id));
  });
  return make("li", "", link);
}

function showTitle(title) {
  state.title = title;
  const text = state.session === null ? "New session" : title || "Untitled session";
  $("title").textContent = text;
  document.title = `${text} · Chat`;
  $("session-buttons").hidden = state.session === null;
}

/** Show a session, or an empty page for `null`. */
async function openSession(id) {
  state.opened.abort();
  const opened = new AbortController();
  Object.assign(state, { session: id, run: null, runState: null, last: null, opened });
  transcript.clear();
  setActive(false);
  setMenu(false);
  showTitle(null);
  if (id !== null) {
    const path = `api/v1/sessions/${encodeURIComponent(id)}`;
    const [detail, runs, { messages }] = await readSession(path);
    if (opened.signal.aborted) return;
    showTitle(detail.title);
    const run = runs.at(-1);
    const asked = messages.findLastIndex(({ role }) => role === "user");
    // The events of the last run are read below, from the beginning.
    transcript.showStored(run ? messages.slice(0, asked + 1) : messages);
    if (run) Object.assign(state, { run: run.id, runState: run.state });
    await showRecalled();
    if (run) await follow(opened.signal);
    else watch(opened.signal);
  }
  await guard(() => listSessions());
  document.body.dataset.ready = "yes";
}

/** Read a session until no run has begun meanwhile, so that its messages and runs fit together. */
async function readSession(path) {
  for (;;) {
    const before = (await load("GET", `${path}/runs`)).runs;
    const detail = await load("GET", path);
    const messages = await load("GET", `${path}/messages`);
    const { runs } = await load("GET", `${path}/runs`);
    if (before.length === runs.length) return [detail, runs, messages];
  }
}

async function showRecalled() {
  const { recalled } = await load("GET", `api/v1/sessions/${encodeURIComponent(state.session)}/recalled`);
  transcript.showRecalled(recalled);
}

/** Load the session again when another window or another user changes it. A hidden window holds no connection. */
async function watch(signal) {
  while (!signal.aborted) {
    if (document.hidden) {
      await new Promise((resolve) => { document.addEventListener("visibilitychange", resolve, { once: true }); });
      continue;
    }
    const closing = new AbortController();
    const stop = () => closing.abort();
    const hide = () => { if (document.hidden) stop(); };
    signal.addEventListener("abort", stop);
    document.addEventListener("visibilitychange", hide);
    try {
      const response = await request("GET", `api/v1/sessions/${state.session}/events`, undefined, { signal: closing.signal });
      document.body.dataset.watching = "yes";
      for await (const { name, data } of readEvents(response)) {
        if (signal.aborted) return;
        if (name === "closed") {
          showProblem("This session was closed.");
          return;
        }
        showTitle(data.title);
        if (data.run_id !== state.run || data.state !== state.runState) {
          guard(() => openSession(state.session));
          return;
        }
      }
    } catch (error) {
      if (error instanceof Refused) {
        report(error);
        return;
      }
    } finally {
      delete document.body.dataset.watching;
      signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", hide);
    }
    await pause(1000, signal);
  }
}

// --- Runs ------------------------------------------------------------------------------------------------------------

/** Send a message. A broken connection is repaired: the same request finds the run that it has started. */
async function send(message) {
  state.opened.abort();
  state.opened = new AbortController();
  const { signal } = state.opened;
  const isNew = state.session === null;
  const body = isNew ? { message } : { session_id: state.session, message };
  const key = newKey();
  transcript.addQuestion(message);
  setActive(true);
  Object.assign(state, { run: null, runState: null, last: null });
  while (!signal.aborted && state.run === null) {
    try {
      const response = await request("POST", "api/v1/chat/stream", body, { headers: { "idempotency-key": key }, signal });
      await readRun(response, signal, isNew ? message : null);
    } catch (error) {
      if (error instanceof Refused) {
        setActive(false);
        $("message").value ||= message;
        throw error;
      }
      await pause(1000, signal);
    }
  }
  if (state.runState === null) await follow(signal);
  else await settle(signal);
}

/** Read the events of the current run from the last one that the page has, until the run ends or waits. */
async function follow(signal) {
  setActive(true);
  state.runState = null;
  while (!signal.aborted && state.runState === null) {
    const headers = state.last ? { "last-event-id": state.last } : {};
    try {
      await readRun(await request("GET", `api/v1/runs/${state.run}/events`, undefined, { headers, signal }), signal, null);
    } catch (error) {
      if (error instanceof Refused) throw error;
      await pause(1000, signal);
    }
  }
  await settle(signal);
}

/** Show the events of a response. `title` is the first message of a new session, which becomes its title. */
async function readRun(response, signal, title) {
  let hasBegun = state.last !== null;
  for await (const event of readEvents(response)) {
    if (signal.aborted) return;
    if (event.name === "session" && hasBegun) {
      openSession(state.session).catch(report); // the history of the session was redacted
      return;
    }
    hasBegun = true;
    if (event.name === "session") await beginRun(event.data, title);
    showEvent(event);
    if (event.id) state.last = event.id;
    if (TERMINAL.has(event.name)) return;
  }
}

async function beginRun({ session_id: session, run_id: run }, title) {
  state.run = run;
  if (state.session === session) return;
  state.session = session;
  history.pushState(null, "", `?session=${session}`);
  const short = title.trim().split("\n")[0].slice(0, 60);
  showTitle(short);
  await guard(async () => {
    await load("PATCH", `api/v1/sessions/${session}`, { title: short });
    await listSessions();
  });
}

function showEvent({ name, data }) {
  if (name === "text") transcript.addText(data.content);
  else if (name === "reset") transcript.resetText();
  else if (name === "tool_start") transcript.startTool(data.id, data.name, null);
  else if (name === "tool_end") transcript.endTool(data.id, data.success, data.content);
  else if (name === "paused") showPause(data.waiting);
  else if (name === "done") showEnd("answered", "The answer is complete.");
  else if (name === "error") showFailure(data);
}

function showEnd(runState, text) {
  state.runState = runState;
  transcript.endText();
  transcript.hideWaiting();
  setActive(false);
  say(text);
}

function showPause(waiting) {
  showEnd("paused", waiting.length === 1 ? "A call waits for your decision." : `${waiting.length} calls wait for a decision.`);
  transcript.showWaiting(waiting, decide);
  setActive(false, true);
}

function showFailure({ code, message }) {
  showEnd(code === "cancelled" ? "cancelled" : "failed", message);
  const retry = make("button", "small", "Try again");
  retry.type = "button";
  retry.addEventListener("click", () => guard(async () => {
    const { signal } = state.opened;
    await load("POST", `api/v1/runs/${state.run}/retry`);
    await follow(signal);
  }));
  showProblem(message, retry);
}

/** Do what is due when a run has ended or waits. */
async function settle(signal) {
  if (signal.aborted) return;
  await showRecalled();
  watch(signal);
  if (state.runState !== "paused" && !document.activeElement?.closest("nav, dialog")) $("message").focus({ preventScroll: true });
}

async function decide(wait, decision) {
  state.opened.abort();
  state.opened = new AbortController();
  const { signal } = state.opened;
  try {
    await load("POST", `api/v1/sessions/${state.session}/decisions`, { decisions: [decision] });
  } catch (error) {
    transcript.showDecisionError(wait.id, error instanceof Refused ? error.message : "The service cannot be reached.");
    watch(signal);
    return;
  }
  transcript.hideWaiting();
  say("Recorded.");
  await guard(() => follow(signal));
}

function setActive(isActive, waits = false) {
  state.isActive = isActive;
  $("stop").hidden = !isActive;
  $("send").hidden = isActive;
  $("send").disabled = waits;
  $("log").setAttribute("aria-busy", String(isActive));
}

function setMenu(isOpen) {
  $("menu").setAttribute("aria-expanded", String(isOpen));
  $("sidebar").classList.toggle("open", isOpen);
}

// --- Controls --------------------------------------------------------------------------------------------------------

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const message = $("message").value;
  if (state.isActive || $("send").disabled || !message.trim()) return;
  $("message").value = "";
  guard(() => send(message));
});
$("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("composer").requestSubmit();
});
$("stop").addEventListener("click", () => guard(async () => {
  if (state.run !== null) await load("POST", `api/v1/runs/${state.run}/cancel`);
}));
$("new").addEventListener("click", () => {
  history.pushState(null, "", location.pathname);
  guard(() => openSession(null));
  $("message").focus();
});
$("more").addEventListener("click", () => guard(() => listSessions(state.next)));
$("menu").addEventListener("click", () => setMenu($("menu").getAttribute("aria-expanded") !== "true"));
$("rename").addEventListener("click", () => {
  $("new-title").value = state.title ?? "";
  $("rename-dialog").returnValue = "";
  $("rename-dialog").showModal();
});
$("rename-dialog").addEventListener("close", () => guard(async () => {
  if ($("rename-dialog").returnValue !== "ok") return;
  const title = $("new-title").value.trim();
  await load("PATCH", `api/v1/sessions/${state.session}`, { title });
  showTitle(title);
  await listSessions();
}));
$("close").addEventListener("click", () => {
  $("close-dialog").returnValue = "";
  $("close-dialog").showModal();
});
$("close-dialog").addEventListener("close", () => guard(async () => {
  if ($("close-dialog").returnValue !== "ok") return;
  await load("DELETE", `api/v1/sessions/${state.session}?force=true`);
  history.pushState(null, "", location.pathname);
  await openSession(null);
  say("The session was closed.");
}));
$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  guard(async () => {
    try {
      await load("POST", "sign-in", { token: $("token").value });
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        showProblem("This token is not valid.");
        return;
      }
      throw error;
    }
    location.reload();
  });
});
$("sign-out").addEventListener("click", () => guard(async () => {
  await load("POST", "sign-out");
  location.assign(location.pathname);
}));
window.addEventListener("popstate", () => guard(() => openSession(wantedSession())));

function wantedSession() {
  return new URLSearchParams(location.search).get("session");
}

guard(() => openSession(wantedSession()));
