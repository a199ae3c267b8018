//! The text form of programs, for reading and diffs, with a printer and a parser: printed text
//! parses to the same program.
//!
//! ```
//! use kernpack_compiler::text;
//!
//! let source = "\
//! func double(a: f32[n], b: mut f32[n]) {
//!   parallel i in 0..n {
//!     b[i] = a[i] * 2.0
//!   }
//! }
//! ";
//! let module = text::parse(source)?;
//! assert_eq!(text::print(&module), source);
//! let error = text::parse("func f(a: f32[4]) {\n  a[0] = b\n}").unwrap_err();
//! assert!(error.to_string().starts_with("SyntaxError: unknown name `b`\n  --> 2:10\n"));
//! # Ok::<(), kernpack_compiler::CompileError>(())
//! ```
//!
//! # Grammar
//!
//! `x*` is any number of x, `x?` at most one, `x,*` a list with commas. A statement ends at the end
//! of its line or at `;`, except inside of `(` and `[`. `//` starts a comment.
//!
//! ```text
//! module      = ("#![" name "=" any "]")* function*
//! function    = declaration* annotation* ("host" | "device" | "internal")? "func" name "(" param,* ")" ("->" type)?
//!               ("threads" "[" axis,* "]")? body
//! declaration = "var" binder                                   // what is free in the function
//!             | "tensor" name ":" type "[" extent,* "]"        // before storage is flattened
//!             | "buffer" name ":" memory "=" expr
//! annotation  = "#[" name "=" any "]"
//! param       = "mut"? binder                                  // a scalar
//!             | buffer ":" "mut"? memory ("handle" binder)?    // a tensor; mut: an output
//! buffer      = name ("data" name)? | name "same" name | "same" name
//! memory      = type "[" extent,* "]" ("@" name)? ("strides" "[" extent,* "]")? ("offset" "(" extent ")")?
//!               ("align" integer)? ("factor" integer)?
//! extent      = expr | name | binder                           // in a parameter, an unknown name is a symbol: a size of type i64
//! binder      = "same"? name (":" "size"? type)?
//! body        = "{" statement* "}"
//!
//! statement   = annotation* ("for" | "parallel" | "vectorized" | "unrolled" | "thread_binding") binder "in" range body
//!             | annotation* "alloc" buffer ":" memory
//!             | annotation* "realize" name "[" range,* "]" ("@" name)?
//!             | "alias" buffer ":" memory "=" expr
//!             | "view" name ":" memory "=" name                // another node for memory that is known
//!             | "let" binder "=" expr
//!             | "attr" name "(" any ")" "=" expr body
//!             | "assert" expr "," text ("," text)*
//!             | "if" expr body ("else" "if" .. | "else" body)?
//!             | "while" expr body
//!             | "return" expr
//!             | "prefetch" name "[" range,* "]"
//!             | name index "=" expr ("where" expr)?            // a store, with a mask
//!             | name "[" expr,* "]" "=" expr                   // an element of a tensor
//!             | call | "eval" expr
//! range       = "0" ".." expr | expr "..+" expr                // values from the first one: how many
//! index       = "[" expr "]" | "[" expr (";" expr)? ":" integer "]"     // the second: a ramp from, by, lanes
//!
//! expr        = expr operator expr | "!" expr | expr "as" type | number | "true" | "false" | text | name
//!             | name index | "(" name index "where" expr ")"   // loads
//!             | name "[" expr,* "]" | call | "(" expr ")" | "(" "let" binder "=" expr "in" expr ")"
//!             | ("floordiv" | "floormod" | "min" | "max") "(" expr "," expr ")"
//!             | ("select" | "if_then_else") "(" expr "," expr "," expr ")"
//!             | "ramp" "(" expr "," expr "," integer ")" | "broadcast" "(" expr "," integer ")"
//!             | "shuffle" "(" "[" expr,* "]" "," "[" integer,* "]" ")"
//!             | "reduce" "(" reducer "," "[" axis,* "]" "," "[" expr,* "]" "," expr "," "[" expr,* "]" "," integer ")"
//! call        = (name | kind text) ("::" "<" type ">")? "(" expr,* ")"
//! kind        = "builtin" | "extern" | "pure_extern" | "llvm" | "packed" | "function"
//! operator    = "||" | "&&" | "==" "!=" "<" "<=" ">" ">=" | "|" | "^" | "&" | "<<" ">>" | "+" "-" | "*" "/" "%"
//!
//! any         = "none" | "true" | "false" | number | text | "[" any,* "]" | "{" (text ":" any),* "}" | "dtype" type
//!             | "expr" expr | "buffer" name | "tensor" name | axis | reducer | "json" text
//! axis        = "axis" binder ("data" | "thread" | "reduce" | "ordered" | "opaque") text? ("in" range)?
//! reducer     = "reducer" "(" binder,* ")" "(" binder,* ")" "=>" "(" expr,* ")" "identity" "(" expr,* ")"
//!
//! type        = ("i" | "u" | "f" | "bf") bits ("x" lanes)? | "bool" ("x" lanes)? | "ptr"
//! number      = digits type? | digits "." digits exponent? type? | ("inf" | "nan") ("_" type)?
//! name        = a word, with dots inside | "`" any characters "`"
//! text        = '"' any characters '"'                         // with \n \t \r \\ \" \` \u{..}
//! ```
//!
//! Operators in order, from loosest to tightest, as in Rust; `as` and `!` are tighter. A number
//! without a type is i64 or f32, or takes the type of the other operand. A float with a type is the
//! double of its digits. `a.data` is the data pointer of buffer `a`. Where two variables have one
//! name, the second is printed as `i_1`; `same` marks the few places that bind a variable again. A
//! call has a type unless it is that of its first argument, for math functions and `likely`.

mod names;
mod number;
mod packed;
mod parse;
mod parse_any;
mod parse_buffer;
mod parse_call;
mod parse_expr;
mod parse_stmt;
mod parser;
mod print;
mod print_expr;
mod print_stmt;
mod printer;
mod token;

pub use parse::{parse, parse_expr, parse_func, parse_stmt, parse_with};
pub use parser::Scope;
pub use print::{Listing, Printable, around, headline, listing, print};
