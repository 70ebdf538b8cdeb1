/** Lines of the log of a job: as handlers log them, and as clients read them. */

import { followEvents } from "./events.js";
import type { Transport } from "./transport.js";

export type LogLevel = "debug" | "info" | "warn" | "error";

/** A line that a handler logged. */
export interface LogLine {
  at: Date;
  /** A `LogLevel`; other workers may use other words. */
  level: string;
  stream: string;
  text: string;
}

/** A line as the server keeps it. */
export interface StoredLine extends LogLine {
  /** Its number in the log of the job, from 1. A gap means that lines were deleted: the log was too long. */
  seq: number;
  /** The attempt that logged it, from 1. */
  attempt: number;
}

/** Which lines to read. */
export interface LogReadOptions {
  /** Whether to wait for new lines until the job has ended. */
  follow?: boolean | undefined;
  /** Only lines of this stream. */
  stream?: string | undefined;
  /** Only lines of this attempt. */
  attempt?: number | undefined;
  /** Go on behind the line with this `seq`. */
  after?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** Lines in a page: the most that the server allows. */
const PAGE_LINES = 1000;

const END: ReadonlySet<string> = new Set(["end"]);

interface LineView extends Omit<StoredLine, "at"> {
  at: string;
}

/** Lines in their order: page by page, or as they come. */
export async function* readLines(
  transport: Transport,
  path: string,
  { follow, stream, attempt, after, signal }: LogReadOptions,
): AsyncGenerator<StoredLine, void, undefined> {
  if (follow) {
    const how = { after: after ? String(after) : undefined, signal, query: { stream, attempt }, ends: END };
    for await (const { name, data } of followEvents(transport, path, how)) {
      if (name === "log") yield stored(data as unknown as LineView);
    }
    return;
  }
  for (let cursor: string | null | undefined = String(after ?? 0); cursor; ) {
    const query = { stream, attempt, after: cursor, limit: PAGE_LINES };
    const page: { lines: LineView[]; next_cursor?: string | null } = await transport.json({
      method: "GET",
      path,
      query,
      repeat: "harmless",
      signal,
    });
    yield* page.lines.map(stored);
    cursor = page.next_cursor;
  }
}

function stored({ at, level, stream, text, seq, attempt }: LineView): StoredLine {
  return { at: new Date(at), level, stream, text, seq, attempt };
}
