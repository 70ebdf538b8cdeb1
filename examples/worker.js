#!/usr/bin/env node
// A worker in JavaScript: takes jobs of the queue `default` and does them. Needs `npm install forgerun`.
//
//     FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... node examples/worker.js
const { Fatal, Worker } = require("forgerun/worker");

const worker = new Worker({ queues: ["default"] });
worker.job("text.upper", (ctx, text) => ({ text: text.toUpperCase() }));
worker.job("*", (ctx) => {
  throw new Fatal(`no handler for ${ctx.job.type}`); // without this, such jobs go back for other workers
});
worker.run();
