// A server made of a function, and a clock that does not wait.
import { Client } from "forgerun";

export function stubClock(now = Date.parse("2026-11-18T21:00:00.000Z")) {
  const waits = [];
  return {
    waits,
    now: () => now,
    random: () => 0,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      waits.push(ms);
      now += ms;
    },
  };
}

export const json = (status, body, headers = {}) =>
  new Response(status === 204 ? null : JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } });

export const refused = () => {
  throw Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED", message: "connect ECONNREFUSED" } });
};

export const broken = () => {
  throw Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNRESET", message: "the connection was reset" } });
};

// A client whose requests are answered by the functions in turn; the last one answers all further requests.
export function stubClient(answers, clock = stubClock()) {
  const requests = [];
  const fetch = async (url, init) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)];
    requests.push({ url: new URL(url), method: init.method, headers: init.headers, body: init.body });
    return answer(requests.at(-1));
  };
  const client = new Client({ url: "http://stub.invalid:1", key: "frk_1", fetch, clock });
  return { client, requests, clock };
}
