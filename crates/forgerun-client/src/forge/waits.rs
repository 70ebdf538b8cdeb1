//! Waiting steps of a workflow's description.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

/// A step that waits, for the `steps` of a workflow.
///
/// ```
/// use std::time::Duration;
/// use forgerun_client::forge::WaitStep;
/// use serde_json::json;
///
/// let ask = WaitStep::wait_signal("approval", "approved", Duration::from_secs(2 * 86_400)).after(["quote"]);
/// let description = json!({"steps": [{"id": "quote", "type": "order.quote", "args": []}, ask]});
/// assert_eq!(description["steps"][1]["wait"], json!({"signal": "approved", "timeout": "172800000ms"}));
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct WaitStep {
    id: String,
    wait: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
}

impl WaitStep {
    fn new(id: &str, wait: Value) -> WaitStep {
        WaitStep { id: id.to_owned(), wait, depends_on: Vec::new(), when: None }
    }

    /// Waits so long, from the turn of the step.
    pub fn wait_for(id: &str, span: Duration) -> WaitStep {
        WaitStep::new(id, json!({"for": millis(span)}))
    }

    /// Waits until this RFC 3339 time.
    pub fn wait_until(id: &str, time: &str) -> WaitStep {
        WaitStep::new(id, json!({"until": time}))
    }

    /// Waits for a signal; the step fails if none came within `timeout`.
    pub fn wait_signal(id: &str, name: &str, timeout: Duration) -> WaitStep {
        WaitStep::new(id, json!({"signal": name, "timeout": millis(timeout)}))
    }

    /// The JSON Schema of the signal's body.
    #[must_use]
    pub fn schema(mut self, schema: Value) -> WaitStep {
        self.wait["schema"] = schema;
        self
    }

    /// The steps that it depends on.
    #[must_use]
    pub fn after<S: Into<String>>(mut self, steps: impl IntoIterator<Item = S>) -> WaitStep {
        self.depends_on = steps.into_iter().map(Into::into).collect();
        self
    }

    /// When it has its turn: `all_succeeded` (the default), `all_ended` or `any_failed`.
    #[must_use]
    pub fn when(mut self, when: &str) -> WaitStep {
        self.when = Some(when.to_owned());
        self
    }
}

fn millis(span: Duration) -> String {
    format!("{}ms", span.as_millis())
}
