/** A real server for tests: `forgerun dev` on a free port, which keeps nothing. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";

import { Client } from "../client.js";

export interface DevServerOptions {
  /** The program: of the package, `FORGERUN_BIN`, or on the PATH. */
  bin?: string | undefined;
  /** Settings, as in the environment: `{ FORGERUN_LIMITS__RATE_PER_MINUTE: "0" }`. */
  env?: Record<string, string> | undefined;
  /** How long the start may take: 30 s. */
  timeoutMs?: number | undefined;
}

/** A server that runs until it is stopped. */
export class DevServer {
  /** @internal */
  private constructor(
    readonly url: string,
    private readonly process: ChildProcess,
  ) {}

  /** Starts one, and waits until it listens. */
  static async start(options: DevServerOptions = {}): Promise<DevServer> {
    const bin = options.bin ?? findBinary();
    const child = spawn(bin, ["dev", "--listen", "127.0.0.1:0"], {
      env: { ...environment(), ...options.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    // A test that forgets to stop it, or throws, leaves nothing behind.
    const kill = () => void child.kill("SIGKILL");
    process.on("exit", kill);
    child.once("exit", () => process.off("exit", kill));
    let complaint = "";
    child.stderr!.on("data", (text: Buffer) => (complaint = (complaint + text.toString()).slice(-4000)));
    const failed = Promise.race([
      once(child, "error").then(([error]) => `could not start ${bin}: ${(error as Error).message}`),
      once(child, "close").then(([code]) => `${bin} ended with ${code}: ${complaint}`),
      new Promise<string>((resolve) => setTimeout(resolve, options.timeoutMs ?? 30_000, `${bin} did not listen in time`).unref()),
    ]);
    const lines = createInterface(child.stdout!);
    const first = once(lines, "line").then(([line]) => String(line));
    const url = await Promise.race([first.then((line) => /https?:\/\/\S+/.exec(line)?.[0]), failed.then(() => undefined)]);
    if (url === undefined) {
      child.kill("SIGKILL");
      throw new Error(await failed);
    }
    lines.on("line", () => undefined);
    return new DevServer(url, child);
  }

  /** A client of it. */
  client(): Client {
    return new Client({ url: this.url });
  }

  /** Ends it. */
  async stop(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** The environment without what configures clients and servers: a variable that the server does not know stops its start. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("FORGERUN_")));
}

/** The server's program: of the package for this platform, `FORGERUN_BIN`, or on the PATH. */
export function findBinary(): string {
  const name = process.platform === "win32" ? "forgerun.exe" : "forgerun";
  const places = [
    process.env["FORGERUN_BIN"],
    ofPackage(`@forgerun/${process.platform}-${process.arch}`, name),
    ...(process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, name)),
  ];
  const found = places.find((place) => place && existsSync(place));
  if (found) return found;
  throw new Error("the program forgerun was not found: set FORGERUN_BIN, or put it on the PATH");
}

function ofPackage(name: string, program: string): string | undefined {
  try {
    // From where the tests run: this file may be a module of either kind.
    return join(createRequire(join(process.cwd(), "index.js")).resolve(`${name}/package.json`), "..", "bin", program);
  } catch {
    return undefined;
  }
}
