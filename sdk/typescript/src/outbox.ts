/** Submits a job inside a transaction of the application's own PostgreSQL: `forgerun outbox` sends it after the commit. */

import { envelope, type NewJob } from "./submission.js";

/** A connection in a transaction: a client of `pg`, or anything with its `query`. */
export interface Queryable {
  query(text: string, values: unknown[]): PromiseLike<{ rows: unknown[] }>;
}

/** Submits a job that exists if the transaction commits, and returns its id. */
export async function submitIn(connection: Queryable, type: string, input?: unknown, options: Omit<NewJob, "type" | "input"> = {}): Promise<string> {
  const job = envelope(type, input, options, Date.now());
  const values = [type, JSON.stringify(job["args"]), JSON.stringify(job["options"])];
  const { rows } = await connection.query("SELECT forgerun.submit($1, $2::jsonb, $3::jsonb)::text AS id", values);
  return (rows[0] as { id: string }).id;
}
