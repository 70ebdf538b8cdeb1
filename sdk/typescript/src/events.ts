/**
 * Events as they happen (server-sent events). A stream that breaks comes back by itself and goes on after the last event:
 * none is missed, none comes twice.
 */

import { END_EVENTS } from "./codes.js";
import { ForgeRunError, UnreachableError } from "./errors.js";
import { LINE_CHARS_MAX, RECONNECT_DEFAULT_MS, RECONNECT_MAX_MS, RECONNECT_MIN_MS, RESUMES_MAX } from "./limits.js";
import type { Answer, Call, Transport } from "./transport.js";

/** One event. */
export interface JobEvent {
  /** Where to go on after it; empty if the server gave none. */
  id: string;
  /** What happened, such as `job-started`. */
  name: string;
  /** The facts. */
  data: Record<string, unknown>;
}

export interface EventOptions {
  /** Go on after the event with this id. */
  after?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** Events of `path`, until one of `ends` has come. */
export async function* followEvents(
  transport: Transport,
  path: string,
  options: EventOptions & { ends?: ReadonlySet<string>; query?: Call["query"] } = {},
): AsyncGenerator<JobEvent, void, undefined> {
  const ends = options.ends ?? END_EVENTS;
  let lastId = options.after ?? "";
  let waitMs = RECONNECT_DEFAULT_MS;
  for (let breaks = 0; ; ) {
    let answer: Answer | undefined;
    try {
      answer = await transport.send({
        method: "GET",
        path,
        query: options.query ?? {},
        headers: { accept: "text/event-stream", "last-event-id": lastId || undefined },
        repeat: "harmless",
        signal: options.signal,
      });
      // The server says the end with 204.
      if (answer.status === 204) return answer.close();
      expectStream(answer);
      const parser = new EventParser();
      const decoder = new TextDecoder();
      for await (const chunk of answer.chunks()) {
        for (const item of parser.push(decoder.decode(chunk, { stream: true }))) {
          if (typeof item === "number") {
            waitMs = Math.min(Math.max(item, RECONNECT_MIN_MS), RECONNECT_MAX_MS);
            continue;
          }
          breaks = 0;
          lastId = item.id || lastId;
          yield item;
          if (ends.has(item.name)) return;
        }
      }
      // It ended without a last event: the server stops, or a proxy lost patience.
    } catch (error) {
      const passing = error instanceof UnreachableError || (error instanceof ForgeRunError && error.retryable);
      if (!passing || ++breaks > RESUMES_MAX) throw error;
    } finally {
      answer?.close();
    }
    await transport.clock.sleep(waitMs * (1 + transport.clock.random() / 2), options.signal);
  }
}

function expectStream(answer: Answer): void {
  const type = answer.headers.get("content-type") ?? "";
  if (type.startsWith("text/event-stream")) return;
  const message = `could not understand the server: a stream of events was expected, not ${JSON.stringify(type)}`;
  throw new ForgeRunError({ code: "PROTOCOL", message });
}

/** Collects text and gives whole events, and numbers for `retry:` lines. */
export class EventParser {
  private rest = "";
  private afterReturn = false;
  private id = "";
  private name = "";
  private data: string | undefined;

  push(text: string): (JobEvent | number)[] {
    const items: (JobEvent | number)[] = [];
    if (this.afterReturn && text.startsWith("\n")) text = text.slice(1);
    if (text === "") return items;
    this.afterReturn = text.endsWith("\r");
    const lines = (this.rest + text).split(/\r\n|\n|\r/);
    this.rest = lines.pop()!;
    if (this.rest.length > LINE_CHARS_MAX) throw new ForgeRunError({ code: "PROTOCOL", message: "an event is too long" });
    for (const line of lines) {
      const item = this.line(line);
      if (item !== undefined) items.push(item);
    }
    return items;
  }

  private line(line: string): JobEvent | number | undefined {
    if (line === "") return this.end();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    switch (field) {
      case "event":
        this.name = value;
        break;
      case "id":
        if (!value.includes("\0")) this.id = value;
        break;
      case "retry":
        return /^\d+$/.test(value) ? Number(value) : undefined;
      case "data":
        this.data = this.data === undefined ? value : `${this.data}\n${value}`;
        if (this.data.length > LINE_CHARS_MAX) throw new ForgeRunError({ code: "PROTOCOL", message: "an event is too long" });
        break;
      // A comment is a sign of life; unknown fields are ignored.
    }
    return undefined;
  }

  private end(): JobEvent | undefined {
    const { data, name } = this;
    this.data = undefined;
    this.name = "";
    if (data === undefined) return undefined;
    return { id: this.id, name: name || "message", data: facts(data) };
  }
}

function facts(data: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : { value };
  } catch {
    return { text: data };
  }
}
