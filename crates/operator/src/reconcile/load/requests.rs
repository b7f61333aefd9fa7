//! What people ask for in annotations, what is told once, who fights over a member, and what becomes of Jobs that ended.
