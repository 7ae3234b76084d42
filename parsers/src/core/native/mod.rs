//! Threads and locks of programs that are not Go (being built).
