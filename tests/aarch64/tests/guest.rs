//! Tests of the runtime that need no other program and no library beside them, in one program for another machine.
