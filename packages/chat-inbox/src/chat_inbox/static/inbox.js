// Keeps a page as it is on the server. Without this script the page works, and is as it was when it was loaded.
"use strict";

(() => {
  // Local time, with UTC beside it, as the server writes it.
  const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  function localize() {
    for (const time of document.querySelectorAll("time.at:not([data-utc])")) {
      const moment = new Date(time.dateTime);
      time.dataset.utc = time.textContent;
      if (moment.getTimezoneOffset()) time.textContent = `${local.format(moment)} (${time.dataset.utc})`;
    }
  }

  // An empty field for a date or a number is a field for text without this script, see `fallback_input_type`.
  function complete() {
    for (const input of document.querySelectorAll("input[data-type]")) input.type = input.dataset.type;
  }

  // A value that is typed is used, and a state that is chosen stays.
  document.addEventListener("input", ({ target }) => {
    const state = target.closest(".field")?.querySelector("select.state[name$='.state']");
    if (!state) return;
    if (target === state) {
      state.previousElementSibling.value = "";
      state.dataset.chosen = state.value;
    } else {
      state.value = target.value !== target.defaultValue ? "value" : state.dataset.chosen || state.querySelector("[selected]").value;
    }
  });

  document.addEventListener("input", ({ target }) => {
    const hint = target.form?.querySelector(".edited[data-script]");
    if (hint) hint.hidden = !edits(target.form).length;
  });

  // The edited fields as text. The fields of a form that was refused have the edits as their defaults.
  function edits(form) {
    const inputs = [...form.querySelectorAll("[name^=f]:not([type=hidden])")];
    return inputs.filter((input) => input.matches("[data-edited]") || (input.matches("select")
      ? input.selectedIndex >= 0 && !input.selectedOptions[0].defaultSelected : input.value !== input.defaultValue))
      .map((input) => `${input.labels[0]?.textContent || input.getAttribute("aria-label")}: ${input.selectedOptions?.[0].textContent ?? input.value}`);
  }

  function isLeftOut(input) {
    const state = input.closest(".field")?.querySelector("select.state");
    return state?.dataset.chosen && state.value !== "value";
  }

  // A change of the page can put another button under the pointer.
  let moved = -Infinity;
  const buttons = () => new Map([...document.querySelectorAll("form[method=post] button:not([hidden])")].map((button) => [button, button.getBoundingClientRect().top]));
  document.addEventListener("click", (event) => {
    if (!event.detail || performance.now() - moved > 700 || !event.target.closest("form[method=post] button")) return;
    event.preventDefault();
    lose(["The page changed as you clicked, so nothing was sent. Check the call, then click again."]);
  }, true);

  // One decision for one click.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const half = [...form.elements].find((input) => input.validity?.badInput && !isLeftOut(input));
    if (half && event.submitter?.value !== "reject") {
      event.preventDefault();
      half.closest("details")?.setAttribute("open", "");
      half.reportValidity();
      return;
    }
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "yes";
    setTimeout(() => { delete form.dataset.sent; }, 5000); // the user may have stopped the request
  });
  window.addEventListener("pageshow", () => {
    for (const form of document.forms) delete form.dataset.sent;
  });

  const source = document.querySelector("[data-stream]");
  const said = document.getElementById("said");
  localize();
  complete();
  // The response to a form that was not accepted has the address of the form, which cannot be read.
  // The message about a decision is shown once.
  const here = new URL(source?.dataset.address || location.href, location.href);
  here.searchParams.delete("done");
  history.replaceState(null, "", here);

  // The way back leads to the list with its filters.
  const list = document.getElementById("bulk");
  const back = document.querySelector(".crumbs a");
  try {
    if (list) sessionStorage.setItem("list", location.search);
    else if (back && !back.search) back.search = sessionStorage.getItem("list") || "";
  } catch { /* the browser stores nothing for this page */ }

  if (!source || !window.EventSource) return;

  let events;
  let last = ""; // the place in the stream that this page has heard of
  let texts = []; // what has come of the answer: number and text
  let reading = false;
  let again = false;
  let delay = 1000; // milliseconds until the page is read again after a failure

  const number = (event) => Number(event.lastEventId.split("-").pop());

  function listen() {
    const address = new URL(source.dataset.stream, location.href);
    if (last) address.searchParams.set("after", last);
    events = new EventSource(address);
    events.addEventListener("open", () => { document.documentElement.dataset.listening = "yes"; });
    events.addEventListener("error", () => {
      // A browser tries again by itself, but not after an answer that is no stream, as a proxy gives in a restart.
      if (events.readyState === EventSource.CLOSED) setTimeout(wake, 3000);
    });
    events.addEventListener("text", more);
    for (const name of ["changed", "began", "reset", "ended"]) {
      events.addEventListener(name, (event) => { last = event.lastEventId; refresh(); });
    }
  }

  function wake() {
    if (document.hidden || events.readyState !== EventSource.CLOSED) return;
    listen();
    refresh();
  }

  // As the server shows text: each control, bidirectional or default-ignorable character as its escape.
  function visible(text) {
    const hidden = /[\p{Default_Ignorable_Code_Point}\u2028\u2029\ufff9-\ufffb]|(?![\t\n\r])\p{Cc}/gu;
    return text.replace(hidden, (char) => char.split("").map((unit) =>
      "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0")).join(""));
  }

  function more(event) {
    last = event.lastEventId;
    const text = visible(JSON.parse(event.data).text);
    texts.push([number(event), text]);
    const live = document.getElementById("live");
    if (!live) { refresh(); return; }
    if (number(event) > Number(live.dataset.after)) live.append(text);
  }

  // Reads the page again; while it is being read, once more is enough for all that happens.
  async function refresh() {
    if (reading) { again = true; return; }
    reading = true;
    do {
      again = false;
      try {
        const answer = await fetch(location.pathname + location.search, { headers: { accept: "text/html" } });
        if (answer.status === 404) { warn("This page no longer exists."); continue; }
        if (answer.status === 401 || answer.status === 403) { warn("You may not see this page any more: load it again to sign in."); continue; }
        if (!answer.ok) throw new Error(answer.statusText);
        take(new DOMParser().parseFromString(await answer.text(), "text/html"));
      } catch (error) {
        warn("The page could not be updated, and may be out of date.");
        await new Promise((done) => { setTimeout(done, delay); });
        delay = Math.min(delay * 2, 30000);
        again = events.readyState !== EventSource.CLOSED;
      }
    } while (again);
    reading = false;
  }

  // Puts what is new into this page. What has the same key and version stays, with what is being written into it.
  function take(page) {
    // A form is sent for the person who is signed in, who must be the one that the page names.
    const [then, now] = [document, page].map((each) => each.querySelector(".who")?.textContent);
    if (then !== now) { location.replace(location.pathname + location.search); return; }
    warn("");
    delay = 1000;
    const changed = [];
    const lost = [];
    const before = document.getElementById("live");
    const places = buttons();
    for (const fresh of page.querySelectorAll("ol.keyed")) {
      const here = document.getElementById(fresh.id);
      if (here) exchange(here, fresh, changed, lost);
    }
    exchangeFilters(page);
    if (lost.length) lose(lost);
    // The forms that stay are sent with the cookie that the browser has now.
    const token = page.querySelector("input[name=token]");
    if (token) for (const mine of document.querySelectorAll("input[name=token]")) mine.value = token.value;
    document.title = page.title;
    const live = document.getElementById("live");
    if (live) {
      const after = Number(live.dataset.after);
      texts = texts.filter(([count]) => count > after);
      // One that has stayed has them.
      if (live !== before) live.append(...texts.map(([, text]) => text));
    } else {
      texts = [];
    }
    if (changed.length) say(changed.join(". "));
    tick();
    localize();
    complete();
    if ([...buttons()].some(([button, top]) => places.get(button) !== top)) moved = performance.now();
  }

  function exchange(here, fresh, changed, lost) {
    const old = new Map([...here.children].map((item) => [item.dataset.key, item]));
    let place = here.firstElementChild;
    for (const item of [...fresh.children]) {
      const mine = old.get(item.dataset.key);
      old.delete(item.dataset.key);
      if (mine && mine.dataset.version === item.dataset.version) {
        if (mine !== place) here.insertBefore(mine, place); else place = place.nextElementSibling;
        continue;
      }
      const taken = document.importNode(item, true);
      if (taken.dataset.said) changed.push(taken.dataset.said);
      if (mine) {
        keep(mine, taken, lost);
        const focused = mine.contains(document.activeElement);
        if (mine === place) place = place.nextElementSibling;
        here.replaceChild(taken, mine);
        if (focused) (taken.querySelector(".card[tabindex]") || document.getElementById("main")).focus();
      } else {
        here.insertBefore(taken, place);
      }
    }
    for (const gone of old.values()) {
      const focused = gone.contains(document.activeElement);
      keep(gone, null, lost);
      gone.remove();
      if (focused) document.getElementById("main").focus();
    }
  }

  // The options are those of the calls that wait now. What the user has written or chosen in a filter stays.
  function exchangeFilters(page) {
    const [here, fresh] = [document, page].map((each) => each.getElementById("filters"));
    if (here && !here.childElementCount) here.append(...document.importNode(fresh, true).children);
    for (const mine of here?.querySelectorAll("select") || []) {
      const options = [...(fresh.querySelector(`#${mine.id}`)?.options || [])].map((option) => document.importNode(option, true));
      if (options.map((option) => option.value).join("\n") === [...mine.options].map((option) => option.value).join("\n")) continue;
      const chosen = mine.selectedOptions[0];
      mine.replaceChildren(...options);
      mine.value = chosen.value;
      if (mine.selectedIndex < 0) mine.append(chosen);
    }
  }

  // What the user has written about a decision moves into the new form, and a call that has not changed stays selected.
  // Edits of arguments do not move, because they are edits of other arguments.
  function keep(old, fresh, lost) {
    if (old.querySelector("form[data-sent]")) return;
    for (const input of old.querySelectorAll("input:not([type=hidden]), textarea, select")) {
      const same = fresh?.querySelector(`[name="${CSS.escape(input.name)}"]`);
      if (input.type === "checkbox") {
        if (!input.checked) continue;
        if (same?.value === input.value) same.checked = true;
        else lost.push(`${input.getAttribute("aria-label").replace(/^Select /, "")} is no longer selected: it has changed, or is no longer on this page.`);
      } else if (["text", "note", "result", "as"].includes(input.name)) {
        if (same) same.value = input.value;
        if (same && input.value && input.name !== "as") same.closest("details")?.setAttribute("open", "");
        if (!same && input.value && input.name !== "as") lost.push(`This was not sent, because the call has changed: ${input.value}`);
      }
    }
    const dropped = edits(old);
    if (dropped.length) lost.push([`Your edits of ${old.querySelector(".name").textContent} were dropped: the call has changed.`, ...dropped].join("\n"));
  }

  function lose(texts) {
    const box = document.getElementById("lost");
    const shown = box.hidden ? [] : [box.firstElementChild.textContent];
    box.firstElementChild.textContent = [...shown, ...texts].join("\n");
    box.hidden = false;
  }
  document.querySelector("#lost button").addEventListener("click", (event) => { event.target.parentElement.hidden = true; });

  function say(text) { said.textContent = text; }

  // What is wrong with the page is visible until the page has been read again.
  function warn(text) {
    if (said.textContent !== text && (text || said.className !== "unseen")) say(text);
    said.className = text ? "alert" : "unseen";
  }

  // Time left, in words.
  function tick() {
    for (const time of document.querySelectorAll("time.relative")) {
      const left = Date.parse(time.dateTime) - Date.now();
      const minutes = Math.floor(Math.abs(left) / 60000);
      const words = minutes < 1 ? "less than a minute"
        : minutes < 60 ? `${minutes} min`
          : minutes < 1440 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min`
            : `${Math.floor(minutes / 1440)} d ${Math.floor(minutes / 60) % 24} h`;
      const before = time.textContent.match(/^(expires|expired|runs|asked) /);
      const verb = before ? `${before[1] === "expires" && left <= 0 ? "expired" : before[1]} ` : "";
      time.textContent = verb + (left > 0 ? `in ${words}` : `${words} ago`);
    }
  }
  setInterval(() => { if (document.hidden) refresh(); else tick(); }, 20000);

  // A browser has six connections to a server, for all of its pages: one that nobody sees keeps none, and looks now and
  // then. One that comes into view again may have slept.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      events.close();
      delete document.documentElement.dataset.listening;
    } else {
      if (events.readyState === EventSource.CLOSED) wake(); else refresh();
    }
  });
  listen();
})();
