import assert from "node:assert/strict";
import { test } from "node:test";

import { Room } from "../dist/esm/worker/room.js";

test("jobs are taken ahead only while they are short", () => {
  const room = new Room(4);
  assert.equal(room.free(0), 4);
  assert.equal(room.free(4), 0, "nothing is known of them");
  room.worked(1);
  assert.equal(room.free(4), 4);
  assert.equal(room.free(7), 0, "one is not worth a request");
  assert.equal(room.free(6), 2);
  for (let n = 0; n < 3; n++) room.worked(60_000);
  assert.equal(room.free(6), 0);
  assert.equal(room.free(1), 3, "as many as slots are free");
});

test("a job that waited in vain ends the taking ahead", () => {
  const room = new Room(1);
  room.worked(1);
  assert.equal(room.free(1), 1);
  room.waitedInVain();
  assert.equal(room.free(1), 0);
});
