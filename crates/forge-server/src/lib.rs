//! The ForgeRun server: where the parts are put together.
