//! The order of rooms and crates, as ARCHITECTURE.md defines it.

use crate::Result;

/// The header of the tables that are read; other tables in the section are for readers only.
const HEADER: &str = "| of | floors |";

/// The tables of the section Floors.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Orders of crates.
    pub(super) crates: Vec<Order>,
    /// Orders of rooms.
    pub(super) rooms: Vec<Order>,
    /// Rooms that may use higher ones.
    pub(super) exceptions: Vec<Exception>,
}

/// Names, floor by floor.
#[derive(Debug)]
pub(super) struct Order {
    /// The crate or module whose rooms the order contains, or `crates`.
    pub(super) name: String,
    floors: Vec<Floor>,
}

#[derive(Debug)]
struct Floor {
    /// Sets of rooms that may use each other; most have one room.
    groups: Vec<Vec<String>>,
}

/// A room that may use a higher one; both with the name of the crate.
#[derive(Debug)]
pub(super) struct Exception {
    pub(super) from: String,
    pub(super) to: String,
}

impl Tables {
    /// The tables in the section Floors of a text.
    pub(super) fn read(text: &str) -> Result<Self> {
        let section = text.split("\n## ").find(|section| section.lines().next() == Some("Floors"));
        let section = section.ok_or("ARCHITECTURE.md has no section Floors")?;
        let mut tables = Self::default();
        let mut is_order = false;
        let mut lines = section.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(row) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
                is_order = false;
                continue;
            };
            if lines.peek().is_some_and(|line| line.starts_with("|--")) {
                is_order = line == HEADER;
                continue;
            }
            if !is_order || line.starts_with("|--") {
                continue;
            }
            let cells: Vec<String> = row.split('|').map(|cell| cell.trim().replace('`', "")).collect();
            match &cells[..] {
                [first, path, reason] if first == "exception" => {
                    let (from, to) = path.split_once("->").ok_or_else(|| format!("exception without ->: {path}"))?;
                    if reason.is_empty() {
                        return Err(format!("ARCHITECTURE.md: the exception {path} has no reason").into());
                    }
                    tables.exceptions.push(Exception { from: from.trim().to_owned(), to: to.trim().to_owned() });
                }
                [first, floors] if first == "crates" => tables.crates.push(Order::read(first, floors)?),
                [name, floors] => tables.rooms.push(Order::read(name, floors)?),
                _ => return Err(format!("ARCHITECTURE.md, Floors: a row of {} cells: {line}", cells.len()).into()),
            }
        }
        if tables.rooms.is_empty() {
            return Err("ARCHITECTURE.md, Floors: no row with the rooms of a crate".into());
        }
        Ok(tables)
    }
}

impl Order {
    fn read(name: &str, floors: &str) -> Result<Self> {
        let names = |group: &str| group.split('+').map(|name| name.trim().to_owned()).collect();
        let floor = |floor: &str| Floor { groups: floor.split(',').map(names).collect() };
        let order = Self { name: name.to_owned(), floors: floors.split('<').map(floor).collect() };
        let mut seen = Vec::new();
        for room in order.rooms() {
            if room.is_empty() || seen.contains(&room) {
                return Err(format!(
                    "ARCHITECTURE.md: the row of {name} has '{room}' twice, or a floor without a name"
                )
                .into());
            }
            seen.push(room);
        }
        Ok(order)
    }

    pub(super) fn rooms(&self) -> impl Iterator<Item = &String> {
        self.floors.iter().flat_map(|floor| floor.groups.iter().flatten())
    }

    /// The name of the order's crate.
    pub(super) fn crate_name(&self) -> &str {
        self.name.split("::").next().unwrap_or_default()
    }

    /// The path of the module whose rooms these are, from the root of the crate.
    pub(super) fn path(&self) -> Vec<String> {
        self.name.split("::").skip(1).map(str::to_owned).collect()
    }

    /// The number of a room's floor, from 0.
    pub(super) fn place(&self, room: &str) -> Option<usize> {
        self.floors.iter().position(|floor| floor.groups.iter().flatten().any(|name| name == room))
    }

    /// Returns whether one room may import from another. Rooms that are missing in the order are
    /// reported elsewhere.
    pub(super) fn allows(&self, from: &str, to: &str) -> bool {
        let (Some(above), Some(below)) = (self.place(from), self.place(to)) else { return true };
        let is_neighbour = |group: &Vec<String>| [from, to].iter().all(|room| group.iter().any(|name| name == room));
        below < above || below == above && self.floors[above].groups.iter().any(is_neighbour)
    }
}
