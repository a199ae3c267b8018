//! The 50 C functions over the cells and tables, and the table of them.
//!
//! A function that returns a status catches all errors, including panics: it raises the error on
//! this thread and returns -1. Functions without a status raise errors if possible and return NULL
//! or a negative index.
//! -1. Functions without a status raise what they can and return NULL or a negative index.
//!
//! The callers of all functions follow the C header, that is: pointers are NULL or valid, texts end
//! with a NUL or have their length, values match their type index. A NULL argument that is not
//! allowed is reported as an error.

#![allow(clippy::missing_safety_doc, reason = "the C header says what each function expects from its caller")]

mod environment;
mod errors;
mod functions;
mod guard;
mod objects;
mod parameters;
mod tensors;
#[cfg(test)]
mod tests;
mod text;
mod types;

use crate::abi::ApiTable;
use environment::{
    env_check_signals, env_get_stream, env_get_tensor_allocator, env_mod_lookup_from_imports,
    env_mod_register_context_symbol, env_mod_register_system_lib_symbol, env_register_c_api, env_set_stream,
    env_set_tensor_allocator, env_tensor_alloc, handle_deinit_once, handle_init_once,
};
use errors::{
    backtrace_at, error_create, error_create_with_cause_and_extra_context, error_move_from_raised, error_set_raised,
    error_set_raised_from_c_str, error_set_raised_from_c_str_parts,
};
use functions::{
    function_call, function_create, function_get_global, function_set_global, function_set_global_from_method_info,
};
use objects::{
    any_view_to_owned_any, get_custom_allocator, get_version, object_create_opaque, object_dec_ref, object_inc_ref,
    set_custom_allocator,
};
use tensors::{
    tensor_create_unsafe_view, tensor_from_dlpack, tensor_from_dlpack_versioned, tensor_to_dlpack,
    tensor_to_dlpack_versioned,
};
use text::{
    big_int_from_byte_array, big_int_get_content_byte_array, bytes_from_byte_array, data_type_from_string,
    data_type_to_string, string_from_byte_array,
};
use types::{
    get_type_attr_column, get_type_info, type_get_or_alloc_index, type_key_to_index, type_register_attr,
    type_register_field, type_register_metadata, type_register_method,
};

/// The functions by value: a call of `FUNCTIONS.name` is a direct call.
pub const FUNCTIONS: ApiTable = ApiTable {
    magic: ApiTable::MAGIC,
    struct_size: size_of::<ApiTable>(),
    get_version,
    object_inc_ref,
    object_dec_ref,
    object_create_opaque,
    get_custom_allocator: Some(get_custom_allocator),
    set_custom_allocator: Some(set_custom_allocator),
    type_key_to_index,
    type_get_or_alloc_index,
    get_type_info,
    type_register_field,
    type_register_method,
    type_register_metadata,
    type_register_attr,
    get_type_attr_column,
    function_create,
    function_call,
    function_set_global,
    function_set_global_from_method_info,
    function_get_global,
    any_view_to_owned_any,
    error_move_from_raised,
    error_set_raised,
    error_set_raised_from_c_str,
    error_set_raised_from_c_str_parts,
    error_create,
    error_create_with_cause_and_extra_context,
    backtrace: backtrace_at,
    tensor_from_dlpack,
    tensor_from_dlpack_versioned,
    tensor_to_dlpack,
    tensor_to_dlpack_versioned,
    tensor_create_unsafe_view,
    string_from_byte_array,
    bytes_from_byte_array,
    data_type_from_string,
    data_type_to_string,
    handle_init_once,
    handle_deinit_once,
    env_set_stream,
    env_get_stream,
    env_set_tensor_allocator,
    env_get_tensor_allocator,
    env_tensor_alloc,
    env_check_signals,
    env_register_c_api,
    env_mod_lookup_from_imports,
    env_mod_register_context_symbol,
    env_mod_register_system_lib_symbol,
    big_int_from_byte_array: Some(big_int_from_byte_array),
    big_int_get_content_byte_array: Some(big_int_get_content_byte_array),
};

static TABLE: ApiTable = FUNCTIONS;

/// Our implementation of the ABI, all 50 functions.
pub fn table() -> &'static ApiTable {
    &TABLE
}
