"""All durable state: one interface, two folders of SQL, one conformance suite."""
