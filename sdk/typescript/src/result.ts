/** What a job left, in pieces. A download that breaks goes on where it ended, with the same content or not at all. */

import { ForgeRunError, UnreachableError } from "./errors.js";
import { RESUMES_MAX } from "./limits.js";
import { RETRY_POLICY } from "./retry.js";
import type { Answer, Transport } from "./transport.js";

/** A result on its way: iterate over it, or take it whole. */
export class ResultStream implements AsyncIterable<Uint8Array> {
  /** Its media type. */
  readonly contentType: string;
  /** Its name, where the server gives it one; never a path. */
  readonly fileName: string | undefined;
  /** Bytes of the whole, where the server says so. */
  readonly size: number | undefined;
  private readonly etag: string | undefined;
  private at = 0;

  /** @internal */
  static async open(transport: Transport, path: string, signal?: AbortSignal): Promise<ResultStream> {
    return new ResultStream(transport, path, signal, await request(transport, path, {}, signal));
  }

  private constructor(
    private readonly transport: Transport,
    private readonly path: string,
    private readonly signal: AbortSignal | undefined,
    private answer: Answer | undefined,
  ) {
    const headers = answer!.headers;
    const length = headers.get("content-length");
    const etag = headers.get("etag");
    this.contentType = headers.get("content-type") ?? "application/octet-stream";
    this.fileName = fileName(headers.get("content-disposition") ?? "");
    // With a content coding the length is that of what came over the wire.
    this.size = length && !headers.get("content-encoding") ? Number(length) : undefined;
    // Only a strong tag promises the same bytes.
    this.etag = etag?.startsWith('"') ? etag : undefined;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for (let breaks = 0; ; ) {
      const answer = this.answer ?? (await this.resume());
      this.answer = undefined;
      try {
        for await (const chunk of answer.chunks()) {
          this.at += chunk.length;
          breaks = 0;
          yield chunk;
        }
        if (this.size === undefined || this.at >= this.size) return;
        throw new UnreachableError(this.transport.url, "the answer is shorter than announced", true);
      } catch (error) {
        if (!(error instanceof UnreachableError) || !this.etag || ++breaks > RESUMES_MAX) throw error;
        const wait = RETRY_POLICY.firstMs * 2 ** breaks;
        await this.transport.clock.sleep(wait * (1 + this.transport.clock.random()), this.signal);
      }
    }
  }

  /** The whole in memory. Throws a `RangeError` if it has more than `max` bytes. */
  async bytes(max: number): Promise<Uint8Array> {
    const whole: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of this) {
      size += chunk.length;
      if (size > max) throw new RangeError(`the result has more than ${max} bytes; read it with stream()`);
      whole.push(chunk);
    }
    return new Uint8Array(await new Blob(whole as BlobPart[]).arrayBuffer());
  }

  /** The result as a web stream. */
  readable(): ReadableStream<Uint8Array> {
    const chunks = this[Symbol.asyncIterator]();
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await chunks.return();
      },
    });
  }

  /** Drops it unread. */
  close(): void {
    this.answer?.close();
    this.answer = undefined;
  }

  private async resume(): Promise<Answer> {
    const headers: Record<string, string> = this.at > 0 ? { range: `bytes=${this.at}-`, "if-range": this.etag! } : {};
    const answer = await request(this.transport, this.path, headers, this.signal);
    const same = answer.headers.get("etag") === this.etag;
    const startsHere = answer.headers.get("content-range")?.startsWith(`bytes ${this.at}-`) ?? false;
    if (this.at === 0 ? same : answer.status === 206 && startsHere) return answer;
    answer.close();
    throw new ForgeRunError({ code: "PROTOCOL", message: "the result is another one than before; begin again" });
  }
}

function request(transport: Transport, path: string, headers: Record<string, string>, signal?: AbortSignal): Promise<Answer> {
  return transport.send({ method: "GET", path, headers: { accept: "*/*", ...headers }, repeat: "harmless", signal });
}

/** The name in `Content-Disposition`, without any path: a server must not choose the folder. */
function fileName(disposition: string): string | undefined {
  const name = /filename="([^"]*)"/.exec(disposition)?.[1]?.split(/[/\\]/).pop()?.trim();
  return name && name !== "." && name !== ".." && !/\p{Cc}/u.test(name) ? name : undefined;
}
