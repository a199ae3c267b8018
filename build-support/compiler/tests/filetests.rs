//! File tests: programs in the text form, the passes to run, and the expected lines;
//! `filetests/README.md` describes the files.
//! `UPDATE_EXPECT=1 cargo test -p kernpack-compiler --test filetests [FILE]` writes the expected
//! lines.

#[path = "filetests/command.rs"]
mod command;
#[path = "filetests/file.rs"]
mod file;
#[path = "filetests/interpreter.rs"]
mod interpreter;
#[path = "filetests/passes.rs"]
mod passes;
#[path = "filetests/te.rs"]
mod te;

/// A test for each file.
macro_rules! files {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                file::check(stringify!($name));
            }
        )*

        #[test]
        fn every_file_is_listed() {
            assert_eq!(file::names(), [$(stringify!($name)),*], "the files are listed here in alphabetic order");
        }
    };
}

files! {
    c
    common_subexpr_elim
    cuda
    guards_of_loads
    hoist_if
    inject_double_buffer
    inject_virtual_thread
    launch_rest
    loop_partition
    lower_warp_memory
    narrow_index
    opencl
    remove_no_op
    rewrite_unsafe_select
    rules
    simplify
    split_host_device
    storage_rewrite
    syntax
    syntax_errors
    thread_sync
    unroll_loop
    vectorize_errors
    vectorize_loop
    verifier
}
