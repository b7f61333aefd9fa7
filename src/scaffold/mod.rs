//! Makes what an operator needs beside its chart: the project, the kind's CustomResourceDefinition, its rights, a bundle. YAML
//! is written from data, never pasted together.
