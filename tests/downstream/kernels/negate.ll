; negate(x: int) -> int: minus x.

; An argument or a result: type index, length of a small string, payload. The type index of an int is 1.
%Any = type { i32, i32, i64 }

@TypeError = private unnamed_addr constant [10 x i8] c"TypeError\00"
@message = private unnamed_addr constant [33 x i8] c"negate(x: int): expected one int\00"

declare i32 @kernpack_raise(ptr, ptr)

define i32 @__tvm_ffi_negate(ptr %self, ptr %args, i32 %num_args, ptr %result) {
  %one = icmp eq i32 %num_args, 1
  br i1 %one, label %check_type, label %bad

check_type:
  %type_index = load i32, ptr %args
  %is_int = icmp eq i32 %type_index, 1
  br i1 %is_int, label %good, label %bad

good:
  %from = getelementptr inbounds %Any, ptr %args, i64 0, i32 2
  %x = load i64, ptr %from
  %minus = sub i64 0, %x
  store i32 1, ptr %result
  %padding = getelementptr inbounds %Any, ptr %result, i64 0, i32 1
  store i32 0, ptr %padding
  %to = getelementptr inbounds %Any, ptr %result, i64 0, i32 2
  store i64 %minus, ptr %to
  ret i32 0

bad:
  %status = call i32 @kernpack_raise(ptr @TypeError, ptr @message)
  ret i32 %status
}
