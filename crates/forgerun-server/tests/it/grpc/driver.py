"""Every call and every status of ojs.v1.OJSService, with grpcio and stubs that grpcio-tools makes of our .proto. Fails loudly.

Arguments: folder of the stubs, address, key, key of another client, a revoked key, address of a second server (small limits), its key."""

import sys

folder, address, key, other_key, revoked_key, small_address, small_key = sys.argv[1:8]
sys.path.insert(0, folder)

import threading

import grpc
from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from forgerun.v1 import results_pb2, results_pb2_grpc
from ojs.v1 import service_pb2 as pb, service_pb2_grpc

channel = grpc.insecure_channel(address)
stub = service_pb2_grpc.OJSServiceStub(channel)
MINE = [("authorization", f"Bearer {key}")]
OTHER = [("authorization", f"Bearer {other_key}")]
PATIENCE = 60


def value(json):
    if json is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    if isinstance(json, bool):
        return struct_pb2.Value(bool_value=json)
    if isinstance(json, (int, float)):
        return struct_pb2.Value(number_value=json)
    if isinstance(json, str):
        return struct_pb2.Value(string_value=json)
    if isinstance(json, list):
        return struct_pb2.Value(list_value=struct_pb2.ListValue(values=[value(one) for one in json]))
    return struct_pb2.Value(struct_value=struct(json))


def struct(json):
    found = struct_pb2.Struct()
    found.update(json)
    return found


def options(**said):
    return pb.EnqueueOptions(**said)


def push(type="test.echo", args=(1,), metadata=MINE, **said):
    request = pb.EnqueueRequest(type=type, args=[value(arg) for arg in args], options=options(**said))
    return stub.Enqueue(request, metadata=metadata, timeout=PATIENCE).job


def fetch(queue="default", metadata=MINE, **said):
    request = pb.FetchRequest(queues=[queue], worker_id="py", wait=duration_pb2.Duration(seconds=20), **said)
    [job] = stub.Fetch(request, metadata=metadata, timeout=PATIENCE).jobs
    return job


def token(job):
    return MINE + [("x-forgerun-lease-token", job.meta["forgerun.lease_token"])]


def details(error):
    """The details of an error by type; every error of ours has an ErrorInfo."""
    status = rpc_status.from_call(error)
    assert status is not None, f"no details: {error}"
    kinds = (error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo, error_details_pb2.BadRequest,
             struct_pb2.Struct, wrappers_pb2.BytesValue)
    found = {}
    for any in status.details:
        for kind in kinds:
            one = kind()
            if any.Unpack(one):
                found[kind] = one
    assert found[error_details_pb2.ErrorInfo].domain == "openjobspec.org"
    return found


def refused(call, code, reason, fields=()):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), error.details(), reason)
        found = details(error)
        info = found[error_details_pb2.ErrorInfo]
        assert info.reason == reason, info
        assert info.metadata["retryable"] in ("true", "false") and info.metadata["rfa_code"].startswith("RFA_"), info
        problem = found[struct_pb2.Struct]
        assert problem["type"] and problem["ojs_code"] in reason, problem
        assert problem["retryable"] == (info.metadata["retryable"] == "true")
        named = [violation.field for violation in found.get(error_details_pb2.BadRequest, error_details_pb2.BadRequest()).field_violations]
        for field in fields:
            assert field in named, (field, named)
        trailers = dict(error.trailing_metadata())
        assert trailers["x-ojs-request-id"], trailers
        return error, found
    raise AssertionError(f"not refused: {reason}")


Code = grpc.StatusCode

# --- the server itself, without a key
manifest = stub.Manifest(pb.ManifestRequest(), timeout=PATIENCE)
assert (manifest.ojs_version, manifest.implementation.name) == ("1.0", "forgerun"), manifest
assert list(manifest.protocols) == ["http", "grpc"], manifest
assert stub.Health(pb.HealthRequest(), timeout=PATIENCE).status == pb.HEALTH_STATUS_OK
health = health_pb2_grpc.HealthStub(channel)
SERVING = health_pb2.HealthCheckResponse.SERVING
for service in ("", "ojs.v1.OJSService"):
    assert health.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE).status == SERVING
try:
    health.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=PATIENCE)
    raise AssertionError("an unknown service has health")
except grpc.RpcError as error:
    assert error.code() == Code.NOT_FOUND
watch = health.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
assert next(watch).status == SERVING
watch.cancel()

# --- reflection, as grpcurl asks it
database = ProtoReflectionDescriptorDatabase(channel)
services = set(database.get_services())
assert {"ojs.v1.OJSService", "forgerun.v1.ResultService", "grpc.health.v1.Health"} <= services, services
assert database.FindFileContainingSymbol("ojs.v1.Job").package == "ojs.v1"
methods = [method.name for service in database.FindFileContainingSymbol("ojs.v1.OJSService").service for method in service.method]
assert len(methods) == 26, methods

# --- submit: everything that can be said arrives, and is shown again
job = push("email.send", [1, 3.25, "ü", None, True, {"a": [1, {"b": None}]}], queue="emails", priority=7,
           timeout=duration_pb2.Duration(seconds=90), tags=["a", "b"], trace_id="trace-1", max_attempts=4,
           meta=struct({"locale": "de", "n": 3}), visibility_timeout=duration_pb2.Duration(seconds=30),
           ttl=duration_pb2.Duration(seconds=3600))
assert (job.type, job.queue, job.priority, job.state) == ("email.send", "emails", 7, pb.JOB_STATE_AVAILABLE), job
assert job.args[5].struct_value["a"][1]["b"] is None and job.args[0].number_value == 1
assert job.meta["locale"] == "de" and job.trace_id == "trace-1" and list(job.tags) == ["a", "b"]
assert (job.timeout.seconds, job.visibility_timeout.seconds, job.max_attempts) == (90, 30, 4)
assert job.expires_at.seconds > job.created_at.seconds and job.specversion == "1.0"
same = stub.GetJob(pb.GetJobRequest(job_id=job.id), metadata=MINE, timeout=PATIENCE).job
assert same == job, (same, job)
policy = pb.RetryPolicy(max_attempts=2, initial_interval=duration_pb2.Duration(nanos=1000000), backoff_coefficient=1.5,
                        max_interval=duration_pb2.Duration(seconds=1), non_retryable_errors=["Fatal"], on_exhaustion="dead_letter")
job = push(retry=policy, queue="policy")
assert job.retry_policy == policy, job.retry_policy
later = timestamp_pb2.Timestamp(seconds=4102444800)
assert push(delay_until=later, queue="later").state == pb.JOB_STATE_SCHEDULED
held = push(pending=True, queue="held")
assert held.state == pb.JOB_STATE_PENDING
assert stub.ActivateJob(pb.ActivateJobRequest(job_id=held.id), metadata=MINE, timeout=PATIENCE).job.state == pb.JOB_STATE_AVAILABLE
batch = pb.EnqueueBatchRequest(
    jobs=[pb.BatchJobEntry(type="a", args=[value(1)]), pb.BatchJobEntry(type="b", options=options(queue="own"))],
    default_options=options(queue="shared"))
taken = stub.EnqueueBatch(batch, metadata=MINE, timeout=PATIENCE)
assert (taken.count, [job.queue for job in taken.jobs]) == (2, ["shared", "own"]), taken

# --- metadata: ids come back, and a key makes a repetition harmless
call = stub.Enqueue.with_call(
    pb.EnqueueRequest(type="a"), timeout=PATIENCE,
    metadata=[("x-ojs-api-key", key), ("x-ojs-request-id", "mine-1"), ("x-ojs-idempotency-key", "k-1"),
              ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")])
first, headers = call[0].job, dict(call[1].initial_metadata())
assert headers["x-ojs-request-id"] == "mine-1" and headers["x-ojs-conformance-level"] and headers["x-ojs-server-version"], headers
assert int(headers["x-ojs-ratelimit-remaining"]) > 0, headers
assert first.trace_id.startswith("00-0af7651916cd43dd"), first
again = MINE + [("x-ojs-idempotency-key", "k-1")]
assert stub.Enqueue(pb.EnqueueRequest(type="a"), metadata=again, timeout=PATIENCE).job.id == first.id
refused(lambda: stub.Enqueue(pb.EnqueueRequest(type="b"), metadata=again, timeout=PATIENCE),
        Code.ALREADY_EXISTS, "OJS_DUPLICATE_JOB")

# --- fetch, ack, nack, heartbeat
id = push(queue="work").id
job = fetch("work", visibility_timeout=duration_pb2.Duration(seconds=5))
assert (job.id, job.state, job.attempt) == (id, pb.JOB_STATE_ACTIVE, 1)
beat = stub.Heartbeat(pb.HeartbeatRequest(id=id, worker_id="py", extend_by=duration_pb2.Duration(seconds=120)),
                      metadata=MINE, timeout=PATIENCE)
assert beat.directed_state == pb.WORKER_STATE_RUNNING and beat.new_deadline.seconds > job.started_at.seconds + 60, beat
alone = stub.Heartbeat(pb.HeartbeatRequest(worker_id="py"), metadata=MINE, timeout=PATIENCE)
assert alone.directed_state == pb.WORKER_STATE_RUNNING and not alone.HasField("new_deadline")
stale = MINE + [("x-forgerun-lease-token", "0.7")]
error, found = refused(lambda: stub.Ack(pb.AckRequest(job_id=id), metadata=stale, timeout=PATIENCE),
                       Code.FAILED_PRECONDITION, "OJS_INVALID_STATE_TRANSITION")
assert found[error_details_pb2.ErrorInfo].metadata["reason"] == "lease_lost"
done = stub.Ack(pb.AckRequest(job_id=id, result=struct({"n": 1})), metadata=token(job), timeout=PATIENCE)
assert done.acknowledged
ended = stub.GetJob(pb.GetJobRequest(job_id=id), metadata=MINE, timeout=PATIENCE).job
assert (ended.state, ended.result["n"]) == (pb.JOB_STATE_COMPLETED, 1) and ended.HasField("completed_at")
refused(lambda: stub.Ack(pb.AckRequest(job_id=id), metadata=MINE, timeout=PATIENCE),
        Code.FAILED_PRECONDITION, "OJS_JOB_ALREADY_COMPLETED")
id = push(queue="work", retry=policy).id
job = fetch("work")
error = pb.JobError(code="boom", message="it broke", details=struct({"error_class": "Oops", "line": 3}), backtrace="at x")
failed = stub.Nack(pb.NackRequest(job_id=id, error=error), metadata=token(job), timeout=PATIENCE)
assert failed.state in (pb.JOB_STATE_RETRYABLE, pb.JOB_STATE_AVAILABLE), failed
job = fetch("work")
assert job.attempt == 2 and job.errors[0].message == "it broke" and job.errors[0].details["line"] == 3, job
back = stub.Nack(pb.NackRequest(job_id=id, requeue=True), metadata=token(job), timeout=PATIENCE)
assert back.state == pb.JOB_STATE_AVAILABLE
job = fetch("work")
assert job.attempt == 2, "what is handed back counts as no attempt"
error = pb.JobError(code="boom", message="again")
failed = stub.Nack(pb.NackRequest(job_id=id, error=error), metadata=token(job), timeout=PATIENCE)
assert failed.state == pb.JOB_STATE_DISCARDED, failed
dead = stub.GetJob(pb.GetJobRequest(job_id=id), metadata=MINE, timeout=PATIENCE).job
assert len(dead.errors) == 2 and dead.failure.startswith(b"{"), dead

# --- dead letters
letters = stub.ListDeadLetter(pb.ListDeadLetterRequest(queue="work"), metadata=MINE, timeout=PATIENCE)
assert [job.id for job in letters.jobs] == [id] and letters.total_count == 1
reopened = stub.RetryDeadLetter(pb.RetryDeadLetterRequest(job_id=id), metadata=MINE, timeout=PATIENCE).job
assert (reopened.state, reopened.attempt) == (pb.JOB_STATE_AVAILABLE, 0), reopened
refused(lambda: stub.DeleteDeadLetter(pb.DeleteDeadLetterRequest(job_id=id), metadata=MINE, timeout=PATIENCE),
        Code.NOT_FOUND, "OJS_NOT_FOUND")
job = fetch("work")
fatal = pb.NackRequest(job_id=id, error=pb.JobError(code="DEAD_LETTER", message="no"))
stub.Nack(fatal, metadata=token(job), timeout=PATIENCE)
stub.DeleteDeadLetter(pb.DeleteDeadLetterRequest(job_id=id), metadata=MINE, timeout=PATIENCE)
refused(lambda: stub.GetJob(pb.GetJobRequest(job_id=id), metadata=MINE, timeout=PATIENCE), Code.NOT_FOUND, "OJS_NOT_FOUND")

# --- queues
names = []
cursor = ""
while True:
    page = stub.ListQueues(pb.ListQueuesRequest(limit=3, cursor=cursor), metadata=MINE, timeout=PATIENCE)
    names += [queue.name for queue in page.queues]
    cursor = page.next_cursor
    if not cursor:
        break
assert {"default", "emails", "held", "later", "own", "shared", "work"} <= set(names) and len(names) == len(set(names)), names
stub.PauseQueue(pb.PauseQueueRequest(queue="emails"), metadata=MINE, timeout=PATIENCE)
stats = stub.QueueStats(pb.QueueStatsRequest(queue="emails"), metadata=MINE, timeout=PATIENCE)
assert (stats.queue, stats.stats.available, stats.stats.paused) == ("emails", 1, True), stats
empty = stub.Fetch(pb.FetchRequest(queues=["emails"]), metadata=MINE, timeout=PATIENCE)
assert len(empty.jobs) == 0
stub.ResumeQueue(pb.ResumeQueueRequest(queue="emails"), metadata=MINE, timeout=PATIENCE)
assert not stub.QueueStats(pb.QueueStatsRequest(queue="emails"), metadata=MINE, timeout=PATIENCE).stats.paused

# --- streams: jobs with flow control, and what happens to them
events = stub.StreamEvents(pb.StreamEventsRequest(queues=["streamed"], event_types=["job.completed"]), metadata=MINE, timeout=PATIENCE)
seen, arrived = [], threading.Event()


def listen():
    try:
        for event in events:
            seen.append(event)
            if len([one for one in seen if one.type == "job.completed"]) == 5:
                arrived.set()
    except grpc.RpcError:
        pass


list(events.initial_metadata())
listener = threading.Thread(target=listen)
listener.start()
ids = [push(queue="streamed").id for _ in range(5)]
push(queue="unheard")
stream = stub.StreamJobs(pb.StreamJobsRequest(queues=["streamed"], worker_id="py", max_concurrent=2), metadata=MINE, timeout=PATIENCE)
in_hand = [next(stream), next(stream)]
for n in range(5):
    job = in_hand.pop(0)
    assert job.id == ids[n], "in order"
    stub.Ack(pb.AckRequest(job_id=job.id), metadata=token(job), timeout=PATIENCE)
    if n < 3:
        in_hand.append(next(stream))
stream.cancel()
assert arrived.wait(PATIENCE), seen
events.cancel()
listener.join()
heard = [event for event in seen if event.type != "stream.keepalive"]
assert [event.job_id for event in heard] == ids and {event.queue for event in heard} == {"streamed"}, heard
assert {event.type for event in heard} == {"job.completed"} and heard[0].data["attempt"] == 1

# --- cancel
id = push(queue="off").id
cancelled = stub.CancelJob(pb.CancelJobRequest(job_id=id, reason="no need"), metadata=MINE, timeout=PATIENCE).job
assert cancelled.state == pb.JOB_STATE_CANCELLED and cancelled.failure
refused(lambda: stub.CancelJob(pb.CancelJobRequest(job_id=id), metadata=MINE, timeout=PATIENCE),
        Code.FAILED_PRECONDITION, "OJS_JOB_ALREADY_CANCELLED")
refused(lambda: stub.ActivateJob(pb.ActivateJobRequest(job_id=id), metadata=MINE, timeout=PATIENCE),
        Code.FAILED_PRECONDITION, "OJS_INVALID_STATE_TRANSITION")

# --- results: what a job left, or how it failed, as a status with the failure object in it
results = results_pb2_grpc.ResultServiceStub(channel)


def result(id, **said):
    return results.GetResult(results_pb2.GetResultRequest(job_id=id, **said), metadata=MINE, timeout=PATIENCE)


def failed(id, code, reason):
    error, found = refused(lambda: result(id), code, reason)
    stored = stub.GetJob(pb.GetJobRequest(job_id=id), metadata=MINE, timeout=PATIENCE).job.failure
    assert stored and found[wrappers_pb2.BytesValue].value == stored, "the same bytes"
    assert found[struct_pb2.Struct]["jobId"] == id


def nacked(error_code, **said):
    id = push(queue="results", retry=pb.RetryPolicy(max_attempts=1)).id
    stub.Nack(pb.NackRequest(job_id=id, error=pb.JobError(code=error_code, message="no"), **said),
              metadata=token(fetch("results")), timeout=PATIENCE)
    return id


id = push(queue="results").id
refused(lambda: result(id), Code.FAILED_PRECONDITION, "OJS_INVALID_STATE_TRANSITION")
refused(lambda: result(id, wait=duration_pb2.Duration(seconds=31)), Code.INVALID_ARGUMENT, "OJS_INVALID_PAYLOAD", ["wait"])
waiting = threading.Thread(target=lambda: seen.append(result(id, wait=duration_pb2.Duration(seconds=30))))
waiting.start()
job = fetch("results")
stub.Ack(pb.AckRequest(job_id=id, result=struct({"n": 1})), metadata=token(job), timeout=PATIENCE)
waiting.join()
assert (seen[-1].media_type, seen[-1].content, seen[-1].size) == ("application/json", b'{"n":1}', 7), seen[-1]
failed(nacked("timeout"), Code.DEADLINE_EXCEEDED, "OJS_HANDLER_TIMEOUT")
failed(nacked("panic"), Code.INTERNAL, "OJS_HANDLER_PANIC")
failed(nacked("non_retryable_error"), Code.FAILED_PRECONDITION, "OJS_NON_RETRYABLE_ERROR")
failed(nacked("boom"), Code.UNKNOWN, "OJS_HANDLER_ERROR")
id = push(queue="results").id
stub.CancelJob(pb.CancelJobRequest(job_id=id), metadata=MINE, timeout=PATIENCE)
failed(id, Code.CANCELLED, "OJS_JOB_CANCELLED")

# --- refusals, status by status
INVALID = Code.INVALID_ARGUMENT
refused(lambda: push("Not A Type"), INVALID, "OJS_INVALID_JOB_TYPE", ["type"])
refused(lambda: push("x" * 300), INVALID, "OJS_JOB_TYPE_TOO_LONG", ["type"])
refused(lambda: push(""), INVALID, "OJS_INVALID_PAYLOAD", ["type"])
refused(lambda: push(queue="Not A Queue"), INVALID, "OJS_INVALID_QUEUE", ["options.queue"])
refused(lambda: push(queue="q" * 300), INVALID, "OJS_QUEUE_NAME_TOO_LONG", ["options.queue"])
refused(lambda: push(priority=1000), INVALID, "OJS_INVALID_PAYLOAD", ["options.priority"])
refused(lambda: push(retry=pb.RetryPolicy(backoff_coefficient=0.1)), INVALID, "OJS_INVALID_RETRY_POLICY",
        ["options.retry.backoff_coefficient"])
refused(lambda: push(args=[float("nan")]), INVALID, "OJS_INVALID_ARGS", ["args"])
refused(lambda: stub.GetJob(pb.GetJobRequest(), metadata=MINE, timeout=PATIENCE), INVALID, "OJS_INVALID_PAYLOAD", ["job_id"])
refused(lambda: stub.Ack(pb.AckRequest(), metadata=MINE, timeout=PATIENCE), INVALID, "OJS_INVALID_PAYLOAD", ["job_id"])
refused(lambda: stub.Nack(pb.NackRequest(job_id=id), metadata=MINE, timeout=PATIENCE), INVALID, "OJS_INVALID_PAYLOAD", ["error"])
refused(lambda: stub.Fetch(pb.FetchRequest(), metadata=MINE, timeout=PATIENCE), INVALID, "OJS_INVALID_PAYLOAD", ["queues"])
refused(lambda: stub.Heartbeat(pb.HeartbeatRequest(), metadata=MINE, timeout=PATIENCE), INVALID, "OJS_INVALID_PAYLOAD", ["worker_id"])
refused(lambda: stub.ListQueues(pb.ListQueuesRequest(limit=1000), metadata=MINE, timeout=PATIENCE), INVALID, "OJS_INVALID_PAYLOAD", ["limit"])
refused(lambda: next(stub.StreamJobs(pb.StreamJobsRequest(queues=["a"], max_concurrent=-1), metadata=MINE, timeout=PATIENCE)),
        INVALID, "OJS_INVALID_PAYLOAD", ["max_concurrent"])
refused(lambda: next(stub.StreamEvents(pb.StreamEventsRequest(event_types=["nothing"]), metadata=MINE, timeout=PATIENCE)),
        INVALID, "OJS_INVALID_PAYLOAD", ["event_types"])
error, found = refused(
    lambda: stub.EnqueueBatch(pb.EnqueueBatchRequest(jobs=[pb.BatchJobEntry(type="a"), pb.BatchJobEntry(type="B")]), metadata=MINE, timeout=PATIENCE),
    INVALID, "OJS_INVALID_JOB_TYPE", ["jobs.1.type"])
assert found[error_details_pb2.ErrorInfo].metadata["index"] == "1"
for credentials in ([], [("authorization", "Bearer nobody")], [("authorization", "Basic x")]):
    refused(lambda: push(metadata=credentials), Code.UNAUTHENTICATED, "OJS_UNAUTHENTICATED")
refused(lambda: push(metadata=[("authorization", f"Bearer {revoked_key}")]), Code.PERMISSION_DENIED, "OJS_PERMISSION_DENIED")
mine = push(queue="mine").id
for call in (lambda: stub.GetJob(pb.GetJobRequest(job_id=mine), metadata=OTHER, timeout=PATIENCE),
             lambda: stub.CancelJob(pb.CancelJobRequest(job_id=mine), metadata=OTHER, timeout=PATIENCE),
             lambda: stub.Ack(pb.AckRequest(job_id=mine), metadata=OTHER, timeout=PATIENCE)):
    refused(call, Code.PERMISSION_DENIED, "OJS_TENANT_ACCESS_DENIED")
assert len(stub.Fetch(pb.FetchRequest(queues=["mine"]), metadata=OTHER, timeout=PATIENCE).jobs) == 0, "queues have owners"
refused(lambda: stub.GetJob(pb.GetJobRequest(job_id="01900000-0000-7000-8000-000000000000"), metadata=MINE, timeout=PATIENCE),
        Code.NOT_FOUND, "OJS_NOT_FOUND")
refused(lambda: stub.GetJob(pb.GetJobRequest(job_id="nonsense"), metadata=MINE, timeout=PATIENCE), Code.NOT_FOUND, "OJS_NOT_FOUND")
unique = pb.UniquePolicy(key=["type"], on_conflict=pb.UNIQUE_CONFLICT_ACTION_REJECT)
only = push("only.once", unique=unique)
assert only.unique_policy.on_conflict == pb.UNIQUE_CONFLICT_ACTION_REJECT
error, found = refused(lambda: push("only.once", unique=unique), Code.ALREADY_EXISTS, "OJS_DUPLICATE_JOB")
assert found[error_details_pb2.ErrorInfo].metadata["existing_job_id"] == only.id
refused(lambda: push(args=["x" * (1100 * 1024)]), Code.RESOURCE_EXHAUSTED, "OJS_PAYLOAD_TOO_LARGE")
refused(lambda: push(meta=struct({"a": "x" * (70 * 1024)})), Code.RESOURCE_EXHAUSTED, "OJS_METADATA_TOO_LARGE")
refused(lambda: push(args=["x" * (18 * 1024 * 1024)]), Code.RESOURCE_EXHAUSTED, "OJS_PAYLOAD_TOO_LARGE")
UNIMPLEMENTED = Code.UNIMPLEMENTED
cron = pb.RegisterCronRequest(name="nightly", cron="0 3 * * *", timezone="Europe/Berlin", type="report.make", args=[value(7)],
                              options=pb.EnqueueOptions(queue="reports", priority=5))
registered = stub.RegisterCron(cron, metadata=MINE, timeout=PATIENCE)
assert registered.name == "nightly" and registered.next_run_at.seconds > 0, registered
entries = stub.ListCron(pb.ListCronRequest(), metadata=MINE, timeout=PATIENCE).entries
assert [(entry.name, entry.cron, entry.timezone, entry.type, entry.options.queue, entry.options.priority) for entry in entries] == [
    ("nightly", "0 3 * * *", "Europe/Berlin", "report.make", "reports", 5)], entries
assert entries[0].next_run_at == registered.next_run_at and entries[0].args[0].number_value == 7, entries
assert not stub.ListCron(pb.ListCronRequest(), metadata=OTHER, timeout=PATIENCE).entries, "cron jobs have owners"
refused(lambda: stub.RegisterCron(pb.RegisterCronRequest(name="bad", cron="not a valid cron", type="a"), metadata=MINE, timeout=PATIENCE),
        INVALID, "OJS_INVALID_CRON_EXPRESSION")
refused(lambda: stub.RegisterCron(pb.RegisterCronRequest(), metadata=MINE, timeout=PATIENCE), INVALID, "OJS_INVALID_PAYLOAD")
refused(lambda: stub.UnregisterCron(pb.UnregisterCronRequest(name="nightly"), metadata=OTHER, timeout=PATIENCE), Code.NOT_FOUND, "OJS_NOT_FOUND")
stub.UnregisterCron(pb.UnregisterCronRequest(name="nightly"), metadata=MINE, timeout=PATIENCE)
assert not stub.ListCron(pb.ListCronRequest(), metadata=MINE, timeout=PATIENCE).entries
steps = [pb.WorkflowStep(id="a", type="flow.a", options=pb.EnqueueOptions(queue="flow")),
         pb.WorkflowStep(id="b", type="flow.b", depends_on=["a"], options=pb.EnqueueOptions(queue="flow"))]
begun = stub.CreateWorkflow(pb.CreateWorkflowRequest(name="two steps", steps=steps), metadata=MINE, timeout=PATIENCE).workflow
assert (begun.name, begun.state) == ("two steps", pb.WORKFLOW_STATE_RUNNING), begun
assert [step.state for step in begun.steps] == [pb.WORKFLOW_STEP_STATE_PENDING, pb.WORKFLOW_STEP_STATE_WAITING], begun
first = stub.Fetch(pb.FetchRequest(queues=["flow"]), metadata=MINE, timeout=PATIENCE).jobs[0]
assert first.workflow_id == begun.id, first
stub.Ack(pb.AckRequest(job_id=first.id, result=struct({"n": 1})), metadata=MINE, timeout=PATIENCE)
second = stub.Fetch(pb.FetchRequest(queues=["flow"]), metadata=MINE, timeout=PATIENCE).jobs[0]
assert second.meta.fields["forgerun.parent_results"].list_value.values[0].struct_value.fields["n"].number_value == 1, second
shown = stub.GetWorkflow(pb.GetWorkflowRequest(workflow_id=begun.id), metadata=MINE, timeout=PATIENCE).workflow
assert [step.state for step in shown.steps] == [pb.WORKFLOW_STEP_STATE_COMPLETED, pb.WORKFLOW_STEP_STATE_ACTIVE], shown
cancelled = stub.CancelWorkflow(pb.CancelWorkflowRequest(workflow_id=begun.id), metadata=MINE, timeout=PATIENCE).workflow
assert cancelled.state == pb.WORKFLOW_STATE_CANCELLED, cancelled
refused(lambda: stub.CancelWorkflow(pb.CancelWorkflowRequest(workflow_id=begun.id), metadata=MINE, timeout=PATIENCE), Code.FAILED_PRECONDITION, "OJS_JOB_ALREADY_CANCELLED")
refused(lambda: stub.CreateWorkflow(pb.CreateWorkflowRequest(name="none"), metadata=MINE, timeout=PATIENCE), INVALID, "OJS_INVALID_PAYLOAD")
refused(lambda: stub.GetWorkflow(pb.GetWorkflowRequest(workflow_id="01900000-0000-7000-8000-000000000000"), metadata=MINE, timeout=PATIENCE), Code.NOT_FOUND, "OJS_NOT_FOUND")
for path in ("/ojs.v1.OJSService/Nothing", "/nobody.v1.Nothing/At"):
    nothing = channel.unary_unary(path, request_serializer=lambda bytes: bytes, response_deserializer=lambda bytes: bytes)
    refused(lambda: nothing(b"", metadata=MINE, timeout=PATIENCE), UNIMPLEMENTED, "OJS_UNSUPPORTED_FEATURE")
garbled = channel.unary_unary("/ojs.v1.OJSService/GetJob", request_serializer=lambda bytes: bytes, response_deserializer=lambda bytes: bytes)
refused(lambda: garbled(b"\xff\xff\xff\xff", metadata=MINE, timeout=PATIENCE), INVALID, "OJS_INVALID_PAYLOAD")
refused(lambda: stub.GetJob(pb.GetJobRequest(job_id=mine), metadata=MINE, timeout=PATIENCE, compression=grpc.Compression.Gzip),
        UNIMPLEMENTED, "OJS_UNSUPPORTED_COMPRESSION")
try:
    stub.Fetch(pb.FetchRequest(queues=["nothing-comes"], wait=duration_pb2.Duration(seconds=30)), metadata=MINE, timeout=0.5)
    raise AssertionError("a deadline was not kept")
except grpc.RpcError as error:
    assert error.code() == Code.DEADLINE_EXCEEDED, error

# --- a server with small limits: a queue of two, five calls a minute
small = service_pb2_grpc.OJSServiceStub(grpc.insecure_channel(small_address))
SMALL = [("authorization", f"Bearer {small_key}")]
enqueue = lambda: small.Enqueue(pb.EnqueueRequest(type="a"), metadata=SMALL, timeout=PATIENCE)
enqueue()
enqueue()
error, found = refused(enqueue, Code.RESOURCE_EXHAUSTED, "OJS_QUEUE_FULL")
assert found[error_details_pb2.RetryInfo].retry_delay.seconds >= 1
small.PauseQueue(pb.PauseQueueRequest(queue="default"), metadata=SMALL, timeout=PATIENCE)
refused(lambda: small.Enqueue(pb.EnqueueRequest(type="a"), metadata=SMALL, timeout=PATIENCE), Code.FAILED_PRECONDITION, "OJS_QUEUE_PAUSED")
error, found = refused(enqueue, Code.RESOURCE_EXHAUSTED, "OJS_RATE_LIMITED")
trailers = dict(error.trailing_metadata())
assert int(trailers["retry-after"]) >= 1 and trailers["x-ojs-ratelimit-remaining"] == "0", trailers
assert found[error_details_pb2.RetryInfo].retry_delay.seconds >= 1
print("fine")
