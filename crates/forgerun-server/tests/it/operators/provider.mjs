// An identity provider that is not ours (oidc-provider), on a free port, until standard input ends. The first line of its
// output is the port. What tests ask of it lies below /test.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Standard output is for the port alone.
console.log = console.info = console.warn = () => {};

const require = createRequire(`${process.env.TOOLS}/`);
const load = async name => import(pathToFileURL(require.resolve(name)));
const { Provider } = await load("oidc-provider");
const jose = await load("jose");

const PEOPLE = { vera: ["staff"], otto: ["staff", "ops"], ada: ["root"], nina: ["guests"] };
const server = createServer();
await new Promise(done => server.listen(0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;
let provider, key, generation = 0, fetches = 0, redirect = "http://localhost/none";

// A new instance has new keys, as after a rotation without an overlap.
async function begin() {
  generation++;
  const { privateKey, publicKey } = await jose.generateKeyPair("RS256", { extractable: true });
  key = { private: privateKey, public: await jose.exportSPKI(publicKey), kid: `key-${generation}` };
  const jwk = { ...(await jose.exportJWK(privateKey)), kid: key.kid, use: "sig", alg: "RS256" };
  provider = new Provider(issuer, {
    clients: [{
      client_id: "forgerun", client_secret: "not:so secret+", redirect_uris: [redirect], response_types: ["code"],
      grant_types: ["authorization_code", "client_credentials"],
    }],
    jwks: { keys: [jwk] },
    cookies: { keys: ["a key of cookies"] },
    conformIdTokenClaims: false,
    claims: { openid: ["sub"], profile: ["preferred_username", "roles"] },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: `${id}@example.org`, roles: PEOPLE[id] }) }),
    extraTokenClaims: () => ({ roles: ["ops"] }),
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({ scope: "", audience: "forgerun", accessTokenFormat: "jwt" }),
      },
    },
  });
}
await begin();

// A token with these claims, signed by the key of the provider, of somebody else, or not at all.
async function token({ header = {}, claims = {}, by = "provider" }) {
  const now = Math.floor(Date.now() / 1000);
  const all = { iss: issuer, aud: "forgerun", sub: "u-1", iat: now, exp: now + 3600, roles: ["staff"], ...claims };
  const head = { alg: "RS256", kid: key.kid, ...header };
  const part = value => Buffer.from(JSON.stringify(value)).toString("base64url");
  if (by === "nobody") return `${part(head)}.${part(all)}.`;
  // The confusion that gave libraries a bad name: the public key as a shared secret.
  if (head.alg === "HS256") return new jose.SignJWT(all).setProtectedHeader(head).sign(Buffer.from(key.public));
  const signer = by === "provider" ? key.private : (await jose.generateKeyPair("RS256")).privateKey;
  return new jose.SignJWT(all).setProtectedHeader(head).sign(signer);
}

const asked = {
  "/test/redirect": async body => { redirect = body.uri; await begin(); return { issuer }; },
  "/test/rotate": async () => { await begin(); return {}; },
  "/test/token": async body => ({ token: await token(body) }),
  "/test/fetches": async () => ({ fetches }),
};

server.on("request", async (request, response) => {
  const path = request.url.split("?")[0];
  if (path === "/jwks") fetches++;
  if (!asked[path]) return provider.callback()(request, response);
  let text = "";
  for await (const chunk of request) text += chunk;
  const body = text ? JSON.parse(text) : {};
  try {
    const answer = JSON.stringify(await asked[path](body));
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(answer) }).end(answer);
  } catch (error) {
    response.writeHead(500).end(String(error.stack));
  }
});
process.stdout.write(`${server.address().port}\n`);
process.stdin.resume().on("end", () => process.exit(0));
