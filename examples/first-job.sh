#!/bin/sh
# The first job, from nothing to its report: creates a client and a key, submits, waits for the end, prints the report.
# The same steps are explained in docs/learn/jobs-and-attempts.md.
#
#   forgerun dev &
#   sh examples/first-job.sh [BASE_URL [WORK_KIND]]
#
# ADMIN_TOKEN: the operator's token, for a server that wants one before it creates clients.
# WAIT_MAX_S:  how long to wait for the end, 180 s unless set.
# Exit codes: 0 the job succeeded, 1 something failed, 3 the job did not succeed, 4 it did not end in time.
set -eu

base=${1:-http://127.0.0.1:8080}
work_kind=${2:-SUCCESS_FAST}
wait_max_s=${WAIT_MAX_S:-180}

fail() {
    echo "first-job: $1" >&2
    exit "${2:-1}"
}

# One text member of a JSON object on one line.
field() {
    sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}

# Calls the server with the method, path and further arguments of curl. An error is shown as the server tells it.
call() {
    method=$1 path=$2
    shift 2
    if ! body=$(curl --silent --show-error --fail-with-body --max-time 60 --request "$method" "$@" "$base$path"); then
        echo "$body" >&2
        fail "$method $path did not succeed"
    fi
    printf '%s\n' "$body"
}

# Registers with the operator's token, if there is one.
register() {
    if [ -n "${ADMIN_TOKEN:-}" ]; then
        call POST "$1" --header "Authorization: Bearer $ADMIN_TOKEN"
    else
        call POST "$1"
    fi
}

client_id=$(register /v1/clients | field client_id)
[ -n "$client_id" ] || fail "no client was created"
api_key=$(register "/v1/clients/$client_id/keys" | field api_key)
[ -n "$api_key" ] || fail "no key was created"
auth="Authorization: Bearer $api_key"
echo "client $client_id"

job_id=$(call POST /v1/jobs --header "$auth" --header 'Content-Type: application/json' \
    --data "{\"type\":\"EXECUTE\",\"work_kind\":\"$work_kind\"}" | field job_id)
[ -n "$job_id" ] || fail "no job was accepted"
echo "job $job_id, $work_kind"

# Each round is held by the server for up to ten seconds, so this neither floods it nor waits too long.
began_s=$(date +%s)
last=
while :; do
    state=$(call GET "/v1/jobs/$job_id" --header "$auth" --header 'Prefer: wait=10' | field state)
    [ -n "$state" ] || fail "the answer names no state"
    [ "$state" = "$last" ] || echo "state $state"
    last=$state
    case $state in
        SUCCEEDED | FAILED | CANCELED) break ;;
    esac
    [ $(($(date +%s) - began_s)) -lt "$wait_max_s" ] || fail "still $state after $wait_max_s s" 4
    # For a server that does not know how to wait.
    sleep 1
done

call GET "/v1/jobs/$job_id/report" --header "$auth"
[ "$state" = SUCCEEDED ] || exit 3
