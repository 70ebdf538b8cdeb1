// Does the jobs of the queue until SIGTERM or Ctrl-C: `npm run worker`.
import { Worker } from "forgerun/worker";

import { writeGreeting } from "./greeting.js";

const worker = new Worker({ queues: ["greetings"], concurrency: 8 });
worker.job("greeting.write", writeGreeting);
await worker.run();
