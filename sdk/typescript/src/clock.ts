/** Time and chance, in one place so that tests can replace them. */

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Resolves after the wait; rejects with the signal's reason if that is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Between 0 and 1. */
  random(): number;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        if (signal?.aborted) reject(signal.reason as Error);
        else resolve();
      };
      const timer = setTimeout(end, ms);
      signal?.addEventListener("abort", end);
    }),
};

/** A UUID of version 7: later ones are greater, and they cannot be guessed. */
export function uuid7(now: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  for (let i = 0, rest = now; i < 6; i++, rest = Math.floor(rest / 256)) bytes[5 - i] = rest % 256;
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
