//! Submitting many jobs of one's own with few requests. They go the way of the Open Job Spec, which takes many jobs at once; what a worker gets is
//! the same as after [`Forge::submit`].

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::{Forge, Submit};
use crate::error::Error;
use crate::limits::{MANY_BYTES_MAX, MANY_JOBS_MAX};

/// The jobs of one request, as they are sent.
#[derive(Serialize)]
struct Batch<'a> {
    jobs: &'a [Box<RawValue>],
}

#[derive(Deserialize)]
struct Accepted {
    jobs: Vec<AcceptedJob>,
}

#[derive(Deserialize)]
struct AcceptedJob {
    id: String,
}

impl Forge<'_> {
    /// Submits many jobs of your own, up to 1,000 with one request, and returns their ids in order. The jobs of a request are accepted all
    /// or none. Sent again after trouble, each is still one job.
    ///
    /// # Errors
    /// [`Error::Usage`] if one of them has no type, or an option that is for single jobs: an idempotency key, a unique key, a callback, a
    /// correlation id. Otherwise as the server refuses it; jobs of requests before that one stay submitted.
    pub async fn submit_many(&self, jobs: &[Submit]) -> Result<Vec<String>, Error> {
        let now = self.client.clock().now();
        let envelopes: Vec<Box<RawValue>> =
            jobs.iter().map(|job| job.at_moment(now).envelope()).collect::<Result<_, _>>()?;
        let mut ids = Vec::with_capacity(jobs.len());
        for chunk in chunks(&envelopes) {
            let call = self.client.ojs().post("jobs/batch")?.json(&Batch { jobs: chunk })?;
            let accepted: Accepted = self.client.fetch(&call.idempotent(&self.client.new_key())?).await?;
            ids.extend(accepted.jobs.into_iter().map(|job| job.id));
        }
        Ok(ids)
    }
}

/// As few parts as the bounds of one request allow. A job that is too large by itself goes alone, for the server to refuse.
fn chunks(envelopes: &[Box<RawValue>]) -> Vec<&[Box<RawValue>]> {
    let (mut chunks, mut first, mut n_bytes) = (Vec::new(), 0, 0);
    for (at, envelope) in envelopes.iter().enumerate() {
        let bytes = envelope.get().len() + 1;
        if at > first && (at - first == MANY_JOBS_MAX || n_bytes + bytes > MANY_BYTES_MAX) {
            chunks.push(&envelopes[first..at]);
            (first, n_bytes) = (at, 0);
        }
        n_bytes += bytes;
    }
    if first < envelopes.len() {
        chunks.push(&envelopes[first..]);
    }
    chunks
}

impl Submit {
    /// The job in the words of the Open Job Spec.
    pub(crate) fn envelope(&self) -> Result<Box<RawValue>, Error> {
        let Some(job_type) = &self.job_type else {
            return Err(Error::Usage("a job of submit_many needs a job_type".to_owned()));
        };
        let single = [
            ("work_kind", self.work_kind.is_some()),
            ("idempotency_key", self.key.is_some()),
            ("unique_key", self.unique_key.is_some()),
            ("callback", self.callback.is_some()),
            ("correlation_id", self.correlation_id.is_some()),
        ];
        if let Some((name, _)) = single.iter().find(|(_, given)| *given) {
            return Err(Error::Usage(format!("submit_many takes no {name}; submit such a job by itself")));
        }
        let mut options = json!({"retry": {"max_attempts": self.max_retries.unwrap_or_default() + 1}});
        let texts =
            [("queue", &self.queue), ("timeout", &self.timeout), ("deadline", &self.deadline)].into_iter();
        for (name, value) in texts.chain([("scheduled_at", &self.execution_at)]) {
            if let Some(value) = value {
                options[name] = value.as_str().into();
            }
        }
        if let Some(priority) = self.priority {
            options["priority"] = priority.into();
        }
        if !self.tags.is_empty() {
            options["tags"] = self.tags.as_slice().into();
        }
        #[derive(Serialize)]
        struct Envelope<'a> {
            r#type: &'a str,
            args: Box<RawValue>,
            options: serde_json::Value,
        }
        let args = arguments(self.payload.as_deref().map_or("null", RawValue::get));
        let envelope = Envelope { r#type: job_type, args, options };
        Ok(to_raw_value(&envelope).expect("an envelope has only strings as keys"))
    }
}

/// The list of arguments that a worker reads as this payload: a list of two or more is the list, nothing is none, anything else is the one argument.
fn arguments(payload: &str) -> Box<RawValue> {
    let payload = payload.trim();
    let n_elements = serde_json::from_str::<Vec<&RawValue>>(payload).map_or(0, |list| list.len());
    let text = match payload {
        "null" => "[]".to_owned(),
        list if n_elements >= 2 => list.to_owned(),
        one => format!("[{one}]"),
    };
    RawValue::from_string(text).expect("a list of one JSON value is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(n_bytes: &[usize]) -> Vec<usize> {
        let text = |n: &usize| RawValue::from_string(format!("\"{}\"", "x".repeat(n - 3))).unwrap();
        let envelopes: Vec<Box<RawValue>> = n_bytes.iter().map(text).collect();
        chunks(&envelopes).iter().map(|chunk| chunk.len()).collect()
    }

    #[test]
    fn a_request_has_at_most_a_thousand_jobs_and_four_mebibytes() {
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[10; 1000]), [1000]);
        assert_eq!(sizes(&[10; 2001]), [1000, 1000, 1]);
        let mebibyte = 1024 * 1024;
        assert_eq!(sizes(&[mebibyte; 5]), [4, 1]);
        assert_eq!(sizes(&[10, 5 * mebibyte, 10]), [1, 1, 1], "one that is too large goes alone");
    }

    #[test]
    fn what_a_batch_cannot_carry_is_refused_before_anything_is_sent() {
        for (job, named) in [
            (Submit::execute(), "job_type"),
            (Submit::job("t", 1).unique_key("u"), "unique_key"),
            (Submit::job("t", 1).idempotency_key("k"), "idempotency_key"),
            (Submit::job("t", 1).callback("http://a"), "callback"),
        ] {
            let error = job.envelope().unwrap_err();
            assert!(matches!(&error, Error::Usage(text) if text.contains(named)), "{error}");
        }
    }
}
