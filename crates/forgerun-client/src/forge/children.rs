//! Steps of a workflow's description that are not one job.

use serde::Serialize;
use serde_json::{Value, json};

/// A step that is a workflow, or a job for each element of a list; for the `steps` of a workflow.
///
/// ```
/// use forgerun_client::forge::ChildStep;
/// use serde_json::json;
///
/// let resize = ChildStep::for_each("resize", "image.resize", "list").pointer("/images").parallel(20);
/// let publish = ChildStep::workflow("publish", json!({"steps": [{"id": "a", "type": "album.render"}]})).after(["resize"]);
/// let description = json!({"steps": [{"id": "list", "type": "images.list", "args": []}, resize, publish]});
/// assert_eq!(description["steps"][1]["for_each"], json!({"step": "list", "pointer": "/images"}));
/// ```
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct ChildStep(Value);

impl ChildStep {
    /// A job of this type for each element of the list that the step `source` leaves.
    pub fn for_each(id: &str, job_type: &str, source: &str) -> ChildStep {
        ChildStep(json!({"id": id, "type": job_type, "for_each": {"step": source}}))
    }

    /// A workflow, as [`Forge::submit_workflow`] takes it.
    ///
    /// [`Forge::submit_workflow`]: super::Forge::submit_workflow
    pub fn workflow(id: &str, description: impl Into<Value>) -> ChildStep {
        ChildStep(json!({"id": id, "workflow": description.into()}))
    }

    /// JSON pointer to the list within the result.
    #[must_use]
    pub fn pointer(mut self, pointer: &str) -> ChildStep {
        self.0["for_each"]["pointer"] = pointer.into();
        self
    }

    /// The arguments of an element: `"$item"` and `"$index"` in them stand for it and its position.
    #[must_use]
    pub fn args(mut self, args: impl Into<Value>) -> ChildStep {
        self.0["args"] = args.into();
        self
    }

    /// How many elements run at once.
    #[must_use]
    pub fn parallel(mut self, n: u32) -> ChildStep {
        self.0["parallel"] = n.into();
        self
    }

    /// An option of the elements' jobs, such as `queue`.
    #[must_use]
    pub fn option(mut self, name: &str, value: impl Into<Value>) -> ChildStep {
        self.0["options"][name] = value.into();
        self
    }

    /// The steps that it depends on, beside the source of its list.
    #[must_use]
    pub fn after<S: Into<String>>(mut self, steps: impl IntoIterator<Item = S>) -> ChildStep {
        self.0["depends_on"] = steps.into_iter().map(Into::into).collect::<Vec<String>>().into();
        self
    }

    /// When it has its turn: `all_succeeded` (the default), `all_ended` or `any_failed`.
    #[must_use]
    pub fn when(mut self, when: &str) -> ChildStep {
        self.0["when"] = when.into();
        self
    }
}
