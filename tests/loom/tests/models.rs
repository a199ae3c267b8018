//! Runs all models: `cargo test --release --manifest-path tests/loom/Cargo.toml`.

macro_rules! run {
    ($($module:ident: $($model:ident)*;)*) => {
        $(mod $module {
            $(#[test]
            fn $model() {
                kernpack_loom::$module::$model();
            })*
        })*
    };
}

run! {
    backend_models: launches_and_a_worker a_launch_and_two_workers two_callers_and_a_worker a_worker_that_sleeps phases
        a_task_that_ends_early;
    name_table_models: looked_up registered_twice grown;
    ref_count_models: strong_references weak_references promotion uniqueness lock;
    shared_ref_models: set removed replaced comes_back comes_back_and_goes;
    tensor_borrow_models: a_writer_and_a_reader the_first_views readers_of_overlapping_ranges a_writer_of_a_part a_reader_of_a_part
        a_cell_stays_crowded a_cell_is_given_up a_cell_is_opened_again a_cell_is_settled a_cell_changes_hands
        a_cell_in_use_does_not_change_hands;
}
