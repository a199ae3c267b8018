//! Lists and dicts that the library and its callers share.

use kernpack::{Any, Array, Dict, Function, List, Map, ObjRef, Object, Result, packed_func};

/// Items of a purchase, and their prices.
#[derive(Object)]
#[object(key = "extmod.Basket")]
#[repr(C)]
pub struct Basket {
    /// The names of what is in it.
    #[field(default = List::new())]
    pub items: List<String>,
    /// The price of each name.
    #[field(default = Dict::new())]
    pub prices: Dict<String, f64>,
}

/// An empty basket.
#[packed_func]
pub fn basket() -> ObjRef<Basket> {
    ObjRef::new(Basket { items: List::new(), prices: Dict::new() })
}

/// The price of all items of a basket.
#[packed_func]
pub fn total(basket: &Basket) -> Result<f64> {
    basket.items.iter().map(|item| basket.prices.at(&item?)).sum()
}

/// The integers below a limit.
#[packed_func]
pub fn integers(limit: i64) -> List<i64> {
    (0..limit).collect()
}

/// Adds a number to a list.
#[packed_func]
pub fn append(numbers: List<i64>, number: i64) {
    numbers.push(number);
}

/// Adds a number to a list that is lent, as often as the list is long; gives the list.
#[packed_func]
pub fn append_to(numbers: &List<i64>, number: i64) -> List<i64> {
    numbers.extend((0..numbers.len()).map(|_| number));
    numbers.clone()
}

/// Counts a word.
#[packed_func]
pub fn count_word(counts: Dict<String, i64>, word: String) -> Result<Dict<String, i64>> {
    let count = counts.get(&word)?.unwrap_or(0);
    counts.insert(word, count + 1)?;
    Ok(counts)
}

/// Calls a function for each element of a list that the function may change.
#[packed_func]
pub fn for_each(list: List<Any>, f: &Function) -> Result<()> {
    list.iter().try_for_each(|element| f.call((element?,)).map(drop))
}

/// The elements of a list, as an immutable list.
#[packed_func]
pub fn frozen(list: List<Any>) -> Result<Vec<Any>> {
    list.to_vec()
}

/// Others, in a tuple and as keys.
#[derive(Object)]
#[object(key = "extmod.Twins")]
#[repr(C)]
pub struct Twins {
    /// Two others.
    pub pair: (Any, Any),
    /// A number for each of some others.
    pub numbers: Map<Any, i64>,
}

/// A table of the same row again and again: in vectors, each of which is an array of its own, or as
/// one array.
#[packed_func]
pub fn rows(count: usize, as_one: bool) -> (Vec<Vec<i64>>, Vec<Array<i64>>) {
    let row = vec![0, 1];
    match as_one {
        false => (vec![row; count], Vec::new()),
        true => (Vec::new(), vec![row.into_iter().collect(); count]),
    }
}
