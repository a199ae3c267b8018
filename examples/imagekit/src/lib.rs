//! imagekit
