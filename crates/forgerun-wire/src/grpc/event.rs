//! What happened, as a message.

use forgerun_core::history::Event;
use forgerun_core::job::Job;
use forgerun_core::time::Time;

use super::moment::timestamp;
use super::{KEEPALIVE, json, v1};
use crate::ojs::event::{OjsEvent, events};
use crate::ojs::job::shown_type;

/// What OJS tells of one event of a job: nothing, one thing, or two.
pub fn messages(event: &Event, job: &Job) -> Vec<v1::Event> {
    events(event, job).iter().map(|told| message(told, event, job)).collect()
}

fn message(told: &OjsEvent, event: &Event, job: &Job) -> v1::Event {
    v1::Event {
        id: told.id.clone(),
        r#type: told.name.to_owned(),
        job_id: job.id.to_string(),
        job_type: shown_type(&job.head).to_owned(),
        queue: job.head.queue.as_str().to_owned(),
        timestamp: Some(timestamp(event.at)),
        data: json::of_object(&told.body["data"]),
        workflow_id: workflow_of(job),
        failure: Vec::new(),
    }
}

/// The workflow that a job is, or is a step of.
fn workflow_of(job: &Job) -> String {
    let own = job.head.workflow_head.as_ref().map(|_| job.id);
    own.or(job.head.workflow.map(|step| step.workflow)).map(|id| id.to_string()).unwrap_or_default()
}

/// Says that a stream is alive.
pub fn keepalive(now: Time) -> v1::Event {
    v1::Event { r#type: KEEPALIVE.to_owned(), timestamp: Some(timestamp(now)), ..v1::Event::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::ExampleJob;
    use crate::outcome::Outcomes;

    #[test]
    fn an_event_says_what_it_says_over_http() {
        let story = ExampleJob::begin(Outcomes::default(), |head| head.job_type = "a.b".into()).begins();
        let told: Vec<v1::Event> =
            story.told().iter().flat_map(|told| messages(&told.event, &told.job)).collect();
        let names: Vec<&str> = told.iter().map(|event| event.r#type.as_str()).collect();
        assert_eq!(names, ["job.enqueued", "job.started"]);
        let first = &story.told()[0];
        assert!(told.iter().all(|event| event.job_id == first.job.id.to_string() && event.job_type == "a.b"));
        let data = told[1].data.as_ref().unwrap();
        assert_eq!(data.fields["state"], json::text("active"));
        assert_eq!(keepalive(Time::ZERO).r#type, "stream.keepalive");
    }
}
