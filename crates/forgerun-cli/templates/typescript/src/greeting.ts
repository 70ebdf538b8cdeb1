import type { JobContext } from "forgerun/worker";

export interface Person {
  name: string;
}

export interface Greeting {
  text: string;
}

/** Gets what was submitted; what it returns is the result of the job. */
export async function writeGreeting(ctx: JobContext, person: Person): Promise<Greeting> {
  // The result of a step is recorded: after a failure the next attempt goes on behind it.
  const salutation = await ctx.step("choose", () => "Good morning");
  await ctx.progress(50, "chosen");
  return { text: `${salutation}, ${person.name}!` };
}
