/** Tools for tests of programs that use ForgeRun. Needs Node. */

export { assertSubmitted, FakeClient, type Submitted } from "./fake.js";
export { runInline, type InlineOptions, type InlineRun } from "./inline.js";
export { DevServer, findBinary, type DevServerOptions } from "./server.js";
