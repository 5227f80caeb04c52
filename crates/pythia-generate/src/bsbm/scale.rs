//! Numbers of instances of each kind for a number of products.

use crate::groups::Groups;

/// Average number of offers for a product.
const OFFERS_PER_PRODUCT: u64 = 20;
/// Average number of reviews of a product.
const REVIEWS_PER_PRODUCT: u64 = 10;
const OFFERS_PER_VENDOR: f64 = 2000.0;
const REVIEWS_PER_REVIEWER: f64 = 19.6;
const REVIEWS_PER_SITE: f64 = 10_000.0;

/// Streams of random numbers of the entities of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    ProductType = 1,
    ProductFeature,
    Producer,
    Product,
    ProductOptions,
    ProductFeatures,
    Vendor,
    Offer,
    Reviewer,
    Review,
    FeatureCounts,
    ProductsOfProducer,
    OffersOfVendor,
    ReviewsOfReviewer,
    ReviewersOfSite,
}

/// The numbers of instances, and their grouping. All numbers are 0-based here, 1-based in IRIs.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) seed: u64,
    pub(super) products: u64,
    pub(super) offers: u64,
    pub(super) reviews: u64,
    /// Products by producer.
    pub(super) producers: Groups,
    /// Offers by vendor.
    pub(super) vendors: Groups,
    /// Reviews by reviewer.
    pub(super) reviewers: Groups,
    /// Reviewers by rating site.
    pub(super) sites: Groups,
}

impl Scale {
    pub(super) fn new(seed: u64, products: u64) -> Self {
        let offers = products * OFFERS_PER_PRODUCT;
        let reviews = products * REVIEWS_PER_PRODUCT;
        let groups =
            |kind: Kind, members, count: f64| Groups::new(seed, kind as u64, members, count as u64);
        let producers = groups(Kind::ProductsOfProducer, products, producer_count(products));
        // The official generator creates vendors until the offers are used up, so it overshoots.
        let vendor_count = (offers as f64 / OFFERS_PER_VENDOR + 1.0).ceil();
        let vendors = groups(Kind::OffersOfVendor, offers, vendor_count);
        let reviewer_count = (reviews as f64 / REVIEWS_PER_REVIEWER).round();
        let reviewers = groups(Kind::ReviewsOfReviewer, reviews, reviewer_count);
        let site_count = (reviews as f64 / REVIEWS_PER_SITE + 0.5).ceil();
        let sites = groups(Kind::ReviewersOfSite, reviewers.count(), site_count);
        Self {
            seed,
            products,
            offers,
            reviews,
            producers,
            vendors,
            reviewers,
            sites,
        }
    }
}

/// Returns the number of producers: one for fifty products and some more. This fits the official numbers (14 for 666
/// products, 61 for 2,848, 1,422 for 70,812).
fn producer_count(products: u64) -> f64 {
    let products = products as f64;
    (products / 50.0 + (products / 700.0).min(4.0)).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_instances_are_those_of_the_official_generator() {
        let scale = Scale::new(1, 2848);
        assert_eq!(scale.producers.count(), 61);
        assert_eq!(scale.vendors.count(), 30);
        assert_eq!(scale.offers, 56_960);
        assert_eq!(scale.reviews, 28_480);
        assert!(scale.reviewers.count().abs_diff(1451) < 14);
        assert_eq!(scale.sites.count(), 4);
        assert_eq!(Scale::new(1, 666).producers.count(), 14);
        assert!(Scale::new(1, 70_812).producers.count().abs_diff(1422) < 10);
        assert!(Scale::new(1, 284_826).vendors.count().abs_diff(2854) < 10);
    }

    #[test]
    fn the_smallest_data_set_has_some_of_each() {
        let scale = Scale::new(1, 1);
        assert_eq!(scale.producers.count(), 1);
        assert_eq!(scale.vendors.count(), 2);
        assert_eq!(scale.reviewers.count(), 1);
        assert_eq!(scale.sites.count(), 1);
    }
}
