"""The work of this project. `python worker.py` does the jobs of the queue until SIGTERM or Ctrl-C."""

from forgerun import Context, Worker

worker = Worker(queues=["greetings"], concurrency=8)


@worker.job("greeting.write")
def write_greeting(ctx: Context, person: dict[str, str]) -> dict[str, str]:
    """Gets what was submitted; what it returns is the result of the job."""
    # The result of a step is recorded: after a failure the next attempt goes on behind it.
    salutation = ctx.step("choose", lambda: "Good morning")
    ctx.progress(50, "chosen")
    return {"text": f"{salutation}, {person['name']}!"}


if __name__ == "__main__":
    worker.run()
