// Requests, the token that goes with them, and server-sent events.

const SLOT = "chartwright-token";
/** There if a person has typed the token. */
const TYPED = "chartwright-typed";

/** The token of this tab. `chartwright dashboard` prints an address that ends with one. */
export function takeToken() {
  const given = /^#token=([A-Za-z0-9._~+\/=-]+)$/.exec(location.hash);
  if (!given) return;
  sessionStorage.setItem(SLOT, given[1]);
  history.replaceState(null, "", location.pathname + "#/");
}

export function setToken(token) {
  sessionStorage.clear();
  if (!token) return;
  sessionStorage.setItem(SLOT, token);
  sessionStorage.setItem(TYPED, "yes");
}

export function isSignedIn() {
  return sessionStorage.getItem(TYPED) !== null;
}

/** An answer that is no data. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(path, parameters, signal) {
  const url = new URL("dashboard/api/" + path, new URL(".", document.baseURI));
  url.search = new URLSearchParams(parameters).toString();
  const token = sessionStorage.getItem(SLOT);
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch(url, { headers, signal, cache: "no-store", credentials: "same-origin" });
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text.trim();
  try {
    message = JSON.parse(text).error || message;
  } catch {
    // Refusals of the authorization are plain text.
  }
  throw new Refused(answer.status, message || "status " + answer.status);
}

export async function read(path, parameters, signal) {
  return (await request(path, parameters, signal)).json();
}

const pause = (milliseconds, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });

/**
 * Follows events until `signal` aborts, and connects again when a stream ends. EventSource cannot send a token, so this reads the
 * stream itself. `on.event(name, data)`, `on.state("live" | "reconnecting")`, `on.refused(error)`: the server does not admit us.
 */
export async function follow(parameters, signal, on) {
  let failures = 0;
  while (!signal.aborted) {
    try {
      const answer = await request("events", parameters, signal);
      on.state("live");
      await readEvents(answer.body, (name, data) => { failures = 0; on.event(name, data); });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && [400, 401, 403].includes(error.status)) {
        on.refused(error);
        return;
      }
      failures += 1;
      on.state("reconnecting", error.message);
    }
    if (signal.aborted) return;
    await pause(failures === 0 ? 200 : Math.min(15000, 500 * 2 ** failures), signal);
  }
}

async function readEvents(body, handle) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    let end;
    while ((end = buffer.indexOf("\n\n")) >= 0) {
      const block = buffer.slice(0, end);
      buffer = buffer.slice(end + 2);
      let name = "message";
      const data = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      }
      if (data.length > 0) handle(name, JSON.parse(data.join("\n")));
    }
  }
}
