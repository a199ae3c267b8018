//! A type with methods, a constructor of its own, properties and operators.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

use kernpack::{Function, ObjRef, Object, Result, bail, object_methods};

/// An account with money.
#[derive(Object)]
#[object(key = "objects.Account")]
#[repr(C)]
pub struct Account {
    pub owner: String,
    pub cents: i64,
}

#[object_methods]
impl Account {
    /// An account with `amount` in it.
    #[init]
    pub fn new(owner: String, #[default(0.0)] amount: f64) -> Result<Self> {
        if amount < 0.0 {
            bail!(ValueError, "{owner} cannot begin with a debt of {}", -amount);
        }
        Ok(Self { owner, cents: (amount * 100.0).round() as i64 })
    }

    /// A shared account.
    pub fn common() -> Self {
        Self { owner: "everybody".to_owned(), cents: 0 }
    }

    /// A new account with `amount` more.
    pub fn with_deposit(&self, amount: i64) -> Result<Self> {
        if amount <= 0 {
            bail!(ValueError, "a deposit is positive, got {amount}");
        }
        Ok(Self { owner: self.owner.clone(), cents: self.cents + amount })
    }

    /// The sum of two accounts, without a fee.
    pub fn together(&self, other: &Self, #[default(0)] fee: i64) -> i64 {
        self.cents + other.cents - fee
    }

    /// The account itself.
    pub fn itself(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }

    /// The richer of the two.
    pub fn richer(this: &ObjRef<Self>, other: Option<ObjRef<Self>>) -> ObjRef<Self> {
        match other {
            Some(other) if other.cents > this.cents => other,
            _ => this.clone(),
        }
    }

    /// The result of `f` for the cents.
    pub fn apply(&self, f: Function) -> Result<i64> {
        f.call_as((self.cents,))
    }

    /// Unknown.
    pub fn fail(&self) -> Result<i64> {
        bail!(IndexError, "the account of {} is closed", self.owner)
    }

    /// Panics, on purpose.
    pub fn panic(&self) -> i64 {
        panic!("no account of {}", self.owner)
    }

    /// The whole units.
    #[getter]
    pub fn units(&self) -> i64 {
        self.cents / 100
    }

    #[operator(repr)]
    fn repr(&self) -> String {
        format!("<{}: {}.{:02}>", self.owner, self.cents / 100, self.cents % 100)
    }

    #[operator(eq)]
    fn eq(&self, other: &Self) -> bool {
        self.cents == other.cents
    }

    #[operator(hash)]
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.cents.hash(&mut hasher);
        hasher.finish()
    }

    #[operator(compare)]
    fn compare(&self, other: &Self) -> Ordering {
        self.cents.cmp(&other.cents)
    }

    /// Two accounts as one.
    #[method(name = "__add__")]
    pub fn plus(&self, other: &Self) -> Self {
        Self { owner: format!("{} and {}", self.owner, other.owner), cents: self.cents + other.cents }
    }

    #[method(name = "__len__")]
    pub fn length(&self) -> i64 {
        self.owner.chars().count() as i64
    }

    /// Only for Rust.
    #[skip]
    pub fn secret(&self) -> i64 {
        -1
    }
}
