/** Lines that a handler logs, on their way to the server: in batches, and never in the way of the work. */

import type { Transport } from "../transport.js";
import type { LogLine } from "../lines.js";
import type { TakenJob } from "./context.js";
import { LOG_BATCH_BYTES_MAX, LOG_FLUSH_MS, LOG_LINE_BYTES_MAX, LOG_LINE_OVERHEAD, LOG_LINES_MAX, LOG_PENDING_MAX } from "./limits.js";

const LONE_SURROGATE = /\p{Surrogate}/gu;

/** The log of one attempt. */
export class LogSender {
  /** Lines that were not kept, because the server was away or did not take them in time. */
  dropped = 0;
  private readonly lines: LogLine[] = [];
  private sending: Promise<void> = Promise.resolve();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly transport: Transport,
    private readonly job: TakenJob,
    private readonly signal: AbortSignal,
  ) {}

  add(line: LogLine): void {
    if (this.lines.length >= LOG_PENDING_MAX) return void this.dropped++;
    for (const text of pieces(line.text)) this.lines.push({ ...line, text });
    this.timer ??= setTimeout(() => void this.flush(), LOG_FLUSH_MS);
  }

  /** Sends what has gathered. Never rejects: a line that is lost is no reason to fail. */
  flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.sending = this.sending.then(async () => {
      while (this.lines.length > 0) await this.send(takeLines(this.lines));
    });
    return this.sending;
  }

  private async send(lines: LogLine[]): Promise<void> {
    const entries = lines.map((line) => ({ ...line, at: line.at.toISOString() }));
    const json = { job_id: this.job.id, lease_token: this.job.lease_token, lines: entries };
    const call = { method: "POST", path: "ojs/v1/workers/logs", json, signal: this.signal } as const;
    try {
      const answer = await this.transport.sendOnce(call);
      answer.close();
    } catch {
      this.dropped += lines.length + this.lines.length;
      this.lines.length = 0;
    }
  }
}

/** A text as lines that the server takes. */
function* pieces(text: string): Generator<string> {
  // Half of a surrogate pair must not cost the whole batch.
  let bytes = Buffer.from(text.replace(LONE_SURROGATE, "\ufffd"));
  while (bytes.length > LOG_LINE_BYTES_MAX) {
    let end = LOG_LINE_BYTES_MAX;
    while ((bytes[end]! & 0xc0) === 0x80) end--; // Not within a character.
    yield bytes.toString("utf8", 0, end);
    bytes = bytes.subarray(end);
  }
  yield bytes.toString("utf8");
}

/** The first lines that fit into one request; they are removed from the list. */
function takeLines(lines: LogLine[]): LogLine[] {
  let n = 0;
  for (let size = 0; n < lines.length && n < LOG_LINES_MAX; n++) {
    size += Buffer.byteLength(lines[n]!.text) + LOG_LINE_OVERHEAD;
    if (size > LOG_BATCH_BYTES_MAX) break;
  }
  return lines.splice(0, n);
}
