/**
 * Verifies that a delivery came from the server: by the secret of the webhook (Standard Webhooks), or by the public keys of
 * the server (RFC 9421, RFC 9530). Uses WebCrypto, so it works in Node, at the edge and in browsers.
 */

/** The key set of a server: `GET /.well-known/forgerun/webhook-keys`. */
export interface JwkSet {
  keys: readonly Jwk[];
}

/** A public key. Keys of other kinds may be in the set; they are skipped. */
export interface Jwk {
  kty?: string | undefined;
  crv?: string | undefined;
  x?: string | undefined;
  kid?: string | undefined;
}

/** Looks a key set up; called with the id of the key that is looked for. See {@link fetchKeys}. */
export type KeyLookup = (keyId: string) => Promise<JwkSet>;

/** The headers of a request, in any of the usual forms. */
export type HeadersLike =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface VerifyOptions {
  /** For keys: the URL as the server calls it. A proxy before you may show your program another one. */
  url?: string | undefined;
  /** For keys: the method of the request, `POST`. */
  method?: string | undefined;
  /** Seconds since 1970. */
  now?: number | undefined;
  /** How far the clocks may differ, in seconds: 300. */
  toleranceS?: number | undefined;
}

export type WebhookErrorKind =
  | "missing_header" | "bad_timestamp" | "expired" | "bad_signature" | "bad_digest" | "not_covered" | "unknown_key"
  | "bad_algorithm";

/** The delivery is not to be trusted. */
export class WebhookError extends Error {
  override name = "WebhookError";

  constructor(
    readonly kind: WebhookErrorKind,
    message: string,
  ) {
    super(message);
  }
}

/** A delivery that is genuine. */
export interface Delivery {
  /** The same at every attempt: what was seen before can be answered and left alone. */
  id: string;
  /** What happened, such as `job_failed`. */
  event: string;
  /** The body as JSON; text if it is none. */
  data: unknown;
}

/** Verifies a delivery and reads it. `body` are the bytes as they came. Throws a `WebhookError`. */
export async function verify(
  body: Uint8Array | string,
  headers: HeadersLike,
  secretOrKeys: string | JwkSet | KeyLookup,
  options: VerifyOptions = {},
): Promise<Delivery> {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const get = (name: string) => headerOf(headers, name);
  const now = options.now ?? Math.floor(Date.now() / 1000);
  const toleranceS = options.toleranceS ?? 300;
  if (typeof secretOrKeys === "string") await verifyStandard(bytes, get, secretOrKeys, now, toleranceS);
  else await verifyRfc9421(bytes, get, secretOrKeys, { ...options, now, toleranceS });
  return { id: get("webhook-id") ?? "", event: get("x-forgerun-event") ?? "", data: readBody(bytes) };
}

/** Looks keys up at `url`, and again when a delivery names a key that is not known, at most once a minute. */
export function fetchKeys(url: string, fetchFn: typeof fetch = (input, init) => fetch(input, init)): KeyLookup {
  let known: JwkSet = { keys: [] };
  let askedAt = Number.NEGATIVE_INFINITY;
  let asking: Promise<JwkSet> | undefined;
  const ask = async () => {
    const answer = await fetchFn(url, { signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) throw new Error(`could not fetch ${url}: ${answer.status}`);
    return (await answer.json()) as JwkSet;
  };
  return async (keyId) => {
    if (known.keys.some((key) => key.kid === keyId) || Date.now() - askedAt < 60_000) return known;
    asking ??= ask().finally(() => (asking = undefined));
    known = await asking;
    askedAt = Date.now();
    return known;
  };
}

type Get = (name: string) => string | undefined;

function headerOf(headers: HeadersLike, name: string): string | undefined {
  if (typeof headers.get === "function") return (headers as { get(name: string): string | null }).get(name) ?? undefined;
  const record = headers as Readonly<Record<string, string | readonly string[] | undefined>>;
  const found = record[name] ?? Object.entries(record).find(([key]) => key.toLowerCase() === name)?.[1];
  return typeof found === "object" ? found.join(", ") : found;
}

function needed(get: Get, name: string): string {
  const value = get(name);
  if (value === undefined || value === "") throw new WebhookError("missing_header", `there is no header ${name}`);
  return value;
}

function readBody(bytes: Uint8Array): unknown {
  const text = new TextDecoder().decode(bytes);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function checkAge(seconds: number, now: number, toleranceS: number): void {
  if (Math.abs(now - seconds) > toleranceS) {
    throw new WebhookError("expired", `it was signed ${Math.abs(now - seconds)} s away from now; are the clocks right?`);
  }
}

async function verifyStandard(body: Uint8Array, get: Get, secret: string, now: number, toleranceS: number): Promise<void> {
  const id = needed(get, "webhook-id");
  const timestamp = needed(get, "webhook-timestamp");
  const signatures = needed(get, "webhook-signature");
  if (!/^\d{1,15}$/.test(timestamp)) throw new WebhookError("bad_timestamp", "webhook-timestamp is no number of seconds");
  checkAge(Number(timestamp), now, toleranceS);
  const raw = fromBase64(secret.replace(/^whsec_/, ""));
  if (!raw) throw new TypeError("the secret is no base64; it begins with whsec_");
  const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const signed = concat(new TextEncoder().encode(`${id}.${timestamp}.`), body);
  for (const each of signatures.split(" ")) {
    const signature = each.startsWith("v1,") ? fromBase64(each.slice(3)) : undefined;
    if (signature && (await crypto.subtle.verify("HMAC", key, signature, signed))) return;
  }
  throw new WebhookError("bad_signature", "no signature was made with this secret over this body, id and time");
}

/** What must be signed for the signature to mean anything: to change one of these is to change the delivery. */
const REQUIRED = ["@method", "@target-uri", "content-type", "content-digest"];

async function verifyRfc9421(
  body: Uint8Array,
  get: Get,
  keys: JwkSet | KeyLookup,
  options: VerifyOptions & { now: number; toleranceS: number },
): Promise<void> {
  await checkDigest(body, get);
  const { params, components, signature, raw } = findSignature(get);
  const missing = REQUIRED.filter((name) => !components.includes(name));
  if (missing.length > 0) throw new WebhookError("not_covered", `${missing.join(", ")} not signed, so it could be anything`);
  const created = Number(params["created"] ?? Number.NaN);
  if (!Number.isInteger(created)) throw new WebhookError("bad_timestamp", "there is no created parameter");
  checkAge(created, options.now, options.toleranceS);
  if (Number(params["expires"] ?? Number.POSITIVE_INFINITY) < options.now) {
    throw new WebhookError("expired", "the signature has expired");
  }
  if (params["alg"] !== undefined && params["alg"] !== "ed25519") {
    throw new WebhookError("bad_algorithm", `the algorithm is ${params["alg"]}, not ed25519`);
  }
  const keyId = params["keyid"];
  if (keyId === undefined) throw new WebhookError("unknown_key", "there is no keyid parameter");
  const set = typeof keys === "function" ? await keys(keyId) : keys;
  const jwk = set.keys.find((key) => key.kid === keyId && key.kty === "OKP" && key.crv === "Ed25519");
  if (!jwk) throw new WebhookError("unknown_key", `the key ${keyId} is not among those given; fetch them again`);
  const lines = components.map((name) => `"${name}": ${componentOf(name, get, options)}`);
  const base = new TextEncoder().encode([...lines, `"@signature-params": ${raw}`].join("\n"));
  if (!(await verifyEd25519(jwk, signature, base))) {
    throw new WebhookError("bad_signature", "the signature was not made with that key over these headers, method and URL");
  }
}

async function checkDigest(body: Uint8Array, get: Get): Promise<void> {
  const found = /(?:^|[,\s])sha-256=:([A-Za-z0-9+/=]*):/.exec(needed(get, "content-digest"));
  if (!found) throw new WebhookError("bad_digest", "content-digest has no sha-256");
  const ours = new Uint8Array(await crypto.subtle.digest("SHA-256", body as Uint8Array<ArrayBuffer>));
  if (!equal(fromBase64(found[1]!), ours)) throw new WebhookError("bad_digest", "content-digest is not that of the body");
}

interface FoundSignature {
  components: string[];
  params: Record<string, string>;
  /** The value of `Signature-Input` for this label, as it was written. */
  raw: string;
  signature: Uint8Array<ArrayBuffer>;
}

function findSignature(get: Get): FoundSignature {
  const inputs = needed(get, "signature-input");
  const signatures = needed(get, "signature");
  const parsed = [...inputs.matchAll(/(?:^|,)\s*([a-z*][a-z0-9_.*-]*)=(\(([^)]*)\)((?:;[a-z*][a-z0-9_.*-]*=(?:"(?:[^"\\]|\\.)*"|[^;,\s"]+))*))/g)];
  const input = parsed.find(([, label]) => label === "sig1") ?? parsed[0];
  const [, label, raw, list, tail] = input ?? [];
  const escaped = label?.replace(/[.*]/g, "\\$&");
  const bytes = escaped && new RegExp(`(?:^|[,\\s])${escaped}=:([A-Za-z0-9+/=]*):`).exec(signatures)?.[1];
  const signature = bytes === undefined ? undefined : fromBase64(bytes);
  if (!signature || raw === undefined) {
    throw new WebhookError("missing_header", "signature-input and signature name no signature in common");
  }
  const params: Record<string, string> = {};
  for (const [, name, value] of tail!.matchAll(/;([a-z*][a-z0-9_.*-]*)=("(?:[^"\\]|\\.)*"|[^;,\s"]+)/g)) {
    params[name!] = value!.startsWith('"') ? value!.slice(1, -1).replace(/\\(.)/g, "$1") : value!;
  }
  const components = [...list!.matchAll(/"([^"]*)"/g)].map(([, name]) => name!);
  return { components, params, raw, signature };
}

function componentOf(name: string, get: Get, options: VerifyOptions): string {
  if (!name.startsWith("@")) {
    const value = get(name);
    if (value === undefined) throw new WebhookError("bad_signature", `${name} is signed, and the request has no such header`);
    return value.trim().replace(/\s*\r?\n\s*/g, " ");
  }
  if (name === "@method") return options.method ?? "POST";
  if (options.url === undefined) throw new TypeError("to verify by keys, give the URL as the server calls it");
  const url = new URL(options.url);
  switch (name) {
    case "@target-uri":
      return options.url;
    case "@authority":
      return url.host;
    case "@scheme":
      return url.protocol.slice(0, -1);
    case "@path":
      return url.pathname;
    case "@query":
      return url.search || "?";
    default:
      throw new WebhookError("bad_signature", `${name} is signed, which is not known here`);
  }
}

interface NodeCrypto {
  createPublicKey(key: { key: Jwk; format: "jwk" }): unknown;
  verify(algorithm: null, data: Uint8Array, key: unknown, signature: Uint8Array): boolean;
}

async function verifyEd25519(jwk: Jwk, signature: Uint8Array<ArrayBuffer>, data: Uint8Array<ArrayBuffer>): Promise<boolean> {
  // In Node before 24 Ed25519 in WebCrypto is experimental and says so on standard error.
  const runtime = (globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }).process;
  const node = runtime?.getBuiltinModule?.("node:crypto") as NodeCrypto | undefined;
  const { kty, crv, x } = jwk;
  if (node) return node.verify(null, data, node.createPublicKey({ key: { kty, crv, x }, format: "jwk" }), signature);
  const key = await crypto.subtle.importKey("jwk", { kty, crv, x } as JsonWebKey, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, key, signature, data);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function concat(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}

function equal(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a?.length === b.length && a.every((byte, at) => byte === b[at]);
}
